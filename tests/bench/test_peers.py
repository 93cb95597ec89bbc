"""The programs that run other runtimes: texts come back in their order, and what goes wrong is said."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import static_models

from bench.peers.process import least_cosine, peer_process
from bench.peers.program import encoder_way
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

    found = encoder_way("test", [infer] * workers, batch, tmp_path / "tokenizer.json", 50).embed(texts)
    ids = [tokenizer.encode(text).ids[:50] for text in texts]
    assert found.tolist() == [[sum(each), len(each)] for each in ids]


def test_a_program_answers_as_often_as_it_is_asked(tmp_path: Path) -> None:
    reference = static_models.model2vec(tmp_path / "m")
    texts = static_models.texts(40)
    (tmp_path / "texts").write_text(json.dumps(texts))
    with peer_process("model2vec", str(tmp_path / "m"), str(tmp_path / "texts"), cpus=CPUS) as peer:
        assert peer.way in ("batches of 64", "batches of 1024")
        assert np.abs(peer.answers - reference.encode(texts)).max() < 1e-6
        for _ in range(2):
            run = peer.run(0.01)
            assert run["rate"] > 0 and run["cpu_us"] > 0


def test_a_program_that_ends_says_why(tmp_path: Path) -> None:
    (tmp_path / "texts").write_text("[]")
    with (
        pytest.raises(BenchError, match=r"model2vec .* has ended: (.|\n)*nothing-here"),
        peer_process("model2vec", str(tmp_path / "nothing-here"), str(tmp_path / "texts"), cpus=CPUS),
    ):
        pass


def test_least_cosine() -> None:
    rows = np.eye(3, dtype=np.float32)
    assert least_cosine(rows, rows) == 1
    assert least_cosine(rows, rows[[0, 1, 0]]) == 0
