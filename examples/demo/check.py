"""Whether the server's answers are right: against fastqps.Engine, the same model in this process, without a server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from examples.demo.sentences import MANY
from fastqps import Engine

COSINE_MIN = 0.999  # in bf16 a batch's order of summation shows in the last digits


@dataclass(frozen=True)
class Verdict:
    """``worst``: the greatest difference of any component; ``cosine``: the least similarity to the right answer."""

    checked: int
    wrong: int
    worst: float
    cosine: float


def check(kept: Path) -> Verdict:
    """Compares the answers that the load kept; an answer is wrong below COSINE_MIN."""
    with np.load(kept) as file:
        sentences, vectors = file["sentences"], file["vectors"]
    if not len(sentences):
        return Verdict(0, 0, 0.0, 1.0)
    exact = np.stack([np.asarray(row) for row in Engine("minilm").predict(MANY)])[sentences]
    if vectors.shape != exact.shape:
        return Verdict(len(sentences), len(sentences), float("inf"), -1.0)
    cosines = (vectors * exact).sum(1) / np.linalg.norm(vectors, axis=1) / np.linalg.norm(exact, axis=1)
    wrong = int((~(cosines >= COSINE_MIN)).sum())  # so that NaN is wrong
    return Verdict(len(sentences), wrong, float(np.abs(vectors - exact).max()), float(cosines.min()))
