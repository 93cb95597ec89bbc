"""A text on which the tokenizers package panics fails alone: its server's processes stay, and answer all others."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from checkpoints import write_checkpoint
from serving import Server, title_of
from word_files import PANICS, write_words

from fastqps import Client
from fastqps.api.prediction import PredictionError
from fastqps.errors import CallError


def served_by(server: Server) -> set[int]:
    """Its processes without those that tokenize, of which one may start late."""
    return {process.pid for process in server.processes() if "fastqps: tokenizer" not in title_of(process)}


def test_only_the_bad_text_fails(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "bert")
    write_words(tmp_path, native=False, panicking=True)
    server = Server(f"--model=panicky={tmp_path}", "--frontdoors=1", "--dispatchers=1")
    try:
        assert "tokenizing through the tokenizers package" in server.log()
        before = served_by(server)
        with Client(server.address) as client:
            for _ in range(8):  # more than the restarts that a server makes
                with pytest.raises(CallError, match="the tokenizer refused it") as caught:
                    client.predict(PANICS)
                assert caught.value.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
            found = client.predict_batch(["a", PANICS, "a b", ("a", PANICS), ("a", "b")])
        failed = [isinstance(answer, PredictionError) for answer in found]
        assert failed == [False, True, False, True, False], found
        assert served_by(server) == before, server.log()
        server.until_idle()
        server.stop()
    finally:
        server.kill()
