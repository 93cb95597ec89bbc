"""The programs that run other runtimes: texts come back in their order, and what goes wrong is said."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import static_models

from bench.peers import llamas, process
from bench.peers.encoders import encoder_way
from bench.peers.llamas import write_llama
from bench.peers.process import least_cosine, peer_process
from fastqps.bench.results.result import BenchError

CPUS = sorted(os.sched_getaffinity(0))


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("batch", [1, 4, 64])
def test_texts_come_back_in_their_order(tmp_path: Path, workers: int, batch: int) -> None:
    """Padded to the longest of each batch, cut at the limit; what an infer sees of padding is masked."""
    tokenizer = static_models.word_pieces()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    texts = [text for text in static_models.texts(60) if tokenizer.encode(text).ids]

    def infer(ids: np.ndarray[Any, Any], mask: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        assert len(ids) <= batch
        return np.stack([(ids * mask).sum(1), mask.sum(1)], 1).astype(np.float32)

    found = encoder_way("test", [infer] * workers, batch, tmp_path / "tokenizer.json", 50).answer(texts)
    ids = [tokenizer.encode(text).ids[:50] for text in texts]
    assert found.tolist() == [[sum(each), len(each)] for each in ids]


def test_a_program_answers_as_often_as_it_is_asked(tmp_path: Path) -> None:
    reference = static_models.model2vec(tmp_path / "m")
    texts = static_models.texts(40)
    (tmp_path / "texts").write_text(json.dumps(texts))
    with peer_process("encoders", "model2vec", str(tmp_path / "m"), str(tmp_path / "texts"), cpus=CPUS) as peer:
        assert peer.way in ("batches of 64", "batches of 1024")
        assert np.abs(peer.answers - reference.encode(texts)).max() < 1e-6
        for _ in range(2):
            run = peer.run(0.01)
            assert run["rate"] > 0 and run["cpu_us"] > 0


def test_a_program_that_ends_says_why(tmp_path: Path) -> None:
    (tmp_path / "texts").write_text("[]")
    with (
        pytest.raises(BenchError, match=r"model2vec .* has ended: (.|\n)*nothing-here"),
        peer_process("encoders", "model2vec", str(tmp_path / "nothing-here"), str(tmp_path / "texts"), cpus=CPUS),
    ):
        pass


def test_a_generator_is_held_against_transformers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96}
    monkeypatch.setitem(llamas.SIZES, "tiny", {"vocab_size": 256, **tiny})
    llama = write_llama("tiny", tmp_path)
    arguments = ("1", str(llama.path), "float32", "none", str(llama.path / "prompts.json"))
    with peer_process("generators", "fastqps", *arguments, cpus=CPUS[:1]) as peer:
        answers = peer.answers
        assert peer.run(0.01)["rate"] > 0
    llama.check_exact(answers)
    assert answers.shape == (32, 50) and llama.first_equal(answers) == 1
    answers[0, 0] += 1
    assert llama.first_equal(answers) == 31 / 32
    with pytest.raises(ValueError, match="1 of 32 answers"):
        llama.check_exact(answers)


def test_a_peer_that_cannot_be_installed_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def install(folder: Path, packages: Sequence[str], *flags: str, mark: str) -> None:
        if mark == "ctranslate2.packages":
            raise BenchError("no such version")

    monkeypatch.setattr(process, "install", install)
    facts: dict[str, str] = {}
    assert process.install_peers(["CTranslate2", "OpenVINO GenAI"], facts) == ["OpenVINO GenAI"]
    assert "openvino-genai==" in facts["peers"] and "ctranslate2" not in facts["peers"]
    assert capsys.readouterr().out == "CTranslate2 is left out: no such version\n"


def test_least_cosine() -> None:
    rows = np.eye(3, dtype=np.float32)
    assert least_cosine(rows, rows) == 1
    assert least_cosine(rows, rows[[0, 1, 0]]) == 0
