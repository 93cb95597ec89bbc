"""The distance of a model's answers from those of the same model in another precision."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fastqps.api.prediction import Generation


Vectors = Sequence[NDArray[np.float32]]
Labels = Sequence[Sequence[tuple[str, float]]]  # (label, score) of each, best first
Figures = dict[str, float]
_NORM_MIN = 1e-12


@dataclass(frozen=True)
class Kind:
    """One figure: its words, its unit (share or number), and the good side of its limit; "" if it has none."""

    words: str
    good: Literal["least", "most", ""] = ""
    share: bool = False


# By task, in the order in which they are shown.
KINDS: dict[str, dict[str, Kind]] = {
    "embed": {
        "cosine_mean": Kind("cosine of embeddings, mean", "least"),
        "cosine_worst": Kind("cosine of embeddings, worst", "least"),
    },
    "classify": {
        "label_flips": Kind("texts whose best label is another", "most", True),
        "score_error_mean": Kind("difference of scores, mean", "most"),
        "score_error_worst": Kind("difference of scores, worst", "most"),
    },
    "generate": {
        "answers_same": Kind("answers that are the same to the last token", "least", True),
        "token_match": Kind("tokens before the first that differs", "least", True),
        "first_divergence": Kind("place of the first that differs, median where one does"),
        "logprob_error_mean": Kind("difference of log-probabilities of same tokens, mean", "most"),
        "logprob_error_worst": Kind("difference of log-probabilities of same tokens, worst", "most"),
        "exact_before": Kind("exact answers before", share=True),
        "exact_after": Kind("exact answers after", share=True),
        "exact_loss": Kind("loss of exact answers", "most", True),
    },
}


def of_embeddings(before: Vectors, after: Vectors) -> Figures:
    """Cosines of each text's two embeddings. What is no number is as bad as can be."""
    cosines = [_cosine(a, b) for a, b in zip(before, after, strict=True)]
    return {"cosine_mean": fmean(cosines), "cosine_worst": min(cosines)}


def of_labels(before: Labels, after: Labels) -> Figures:
    """How many best labels changed, and how far the scores moved."""
    flips = [a[0][0] != b[0][0] for a, b in zip(before, after, strict=True)]
    errors = [
        abs(score - others[label])
        for a, b in zip(before, after, strict=True)
        for others in (dict(b),)
        for label, score in a
    ]
    return {"label_flips": fmean(flips), "score_error_mean": fmean(errors), "score_error_worst": max(errors)}


def of_generations(before: Sequence[Generation], after: Sequence[Generation], right: Sequence[str] = ()) -> Figures:
    """Of greedy answers with log-probabilities. Tokens are compared up to the first that differs: what follows it
    follows another text. ``right``: the answers that there should be, if they are known."""
    same = [_same(a.token_ids, b.token_ids) for a, b in zip(before, after, strict=True)]
    whole = [a.token_ids == b.token_ids for a, b in zip(before, after, strict=True)]
    errors = [
        abs(x - y)
        for a, b, n in zip(before, after, same, strict=True)
        for x, y in zip((a.logprobs or [])[:n], (b.logprobs or [])[:n], strict=True)
    ]
    found = {
        "answers_same": fmean(whole),
        "token_match": sum(same) / max(1, sum(len(a.token_ids) for a in before)),
        "logprob_error_mean": fmean(errors) if errors else 0.0,
        "logprob_error_worst": max(errors, default=0.0),
    }
    if not all(whole):
        found["first_divergence"] = median(n + 1 for n, equal in zip(same, whole, strict=True) if not equal)
    if right:
        exact = [fmean(a.text == b for a, b in zip(answers, right, strict=True)) for answers in (before, after)]
        found |= {"exact_before": exact[0], "exact_after": exact[1], "exact_loss": exact[0] - exact[1]}
    return found


def holds(kind: Kind, value: float, limit: float) -> bool:
    """Whether a figure keeps its limit."""
    return value >= limit if kind.good == "least" else value <= limit


def _cosine(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    x, y = a.astype(np.float64), b.astype(np.float64)
    found = float(x @ y / max(float(np.linalg.norm(x) * np.linalg.norm(y)), _NORM_MIN))
    return found if math.isfinite(found) else -1.0


def _same(a: Sequence[int], b: Sequence[int]) -> int:
    """The number of tokens before the first difference."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
