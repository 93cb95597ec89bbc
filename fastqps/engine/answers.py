"""Turns a runner's raw rows into answers, without a server. In a server csrc/step/encode/scatter.cpp does this."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastqps.api.prediction import Entity, Label, SparseEmbedding
from fastqps.models.card import ModelCard

Answer = NDArray[np.float32] | list[tuple[str, float]] | list[Entity] | SparseEmbedding

_NORM_MIN = 1e-12  # a zero vector stays zero


def answer(card: ModelCard, row: NDArray[np.float32]) -> Answer:
    """An embedding float32 [dimensions], or (label, score) of every label, best first; equal scores in label order.

    Of a model with sparse embeddings, that of the row.
    """
    if card.task == "embed":
        return embedding(card, row)
    if card.task == "embed_sparse":
        return sparse_embedding(card, row)
    return [(label.name, label.score) for label in best_labels(card, row)]


def best_labels(
    card: ModelCard, row: NDArray[np.float32], top_labels: int = 0, raw_scores: bool = False
) -> list[Label]:
    """The ``top_labels`` best labels, or all of them if 0, best first; equal scores in label order."""
    logits = row.astype(np.float64)
    scores = logits if raw_scores else _scores(card, logits)
    order = np.argsort(-scores, kind="stable")[: top_labels or len(scores)]
    return [Label(card.labels[i], float(scores[i]), int(i)) for i in order]


def embedding(
    card: ModelCard, row: NDArray[np.float32], dimensions: int | None = None, normalize: bool | None = None
) -> NDArray[np.float32]:
    """The leading ``dimensions`` of a row, or all of them if None, scaled to length 1 if ``normalize`` says so, or the
    model's card if that is None. float32 [dimensions]."""
    kept = row[:dimensions]
    scaled = card.normalize if normalize is None else normalize
    return kept / max(float(np.linalg.norm(kept)), _NORM_MIN) if scaled else kept.copy()


def sparse_embedding(card: ModelCard, row: NDArray[np.float32], max_active_dims: int | None = None) -> SparseEmbedding:
    """The weights of a row that are above zero, or the ``max_active_dims`` largest ones if that is not None."""
    n = card.max_active_dims
    weights, ids = row[:n], row[n : 2 * n].astype(np.uint32)
    order = np.lexsort((ids, -weights))[: max_active_dims or n]
    kept = order[weights[order] > 0]
    return SparseEmbedding(ids[kept], weights[kept], int(row[2 * n]))


def vectors(
    card: ModelCard, rows: NDArray[np.float32], dimensions: int | None = None, normalize: bool | None = None
) -> NDArray[np.float32]:
    """``embedding`` of each row: float32 [tokens, dimensions]."""
    found = [embedding(card, row, dimensions, normalize) for row in rows]
    return np.array(found, np.float32).reshape(len(rows), dimensions or card.dimensions)


def _scores(card: ModelCard, row: NDArray[np.float64]) -> NDArray[np.float64]:
    if card.activation == "softmax":
        exponentials = np.exp(row - row.max())
        return np.asarray(exponentials / exponentials.sum())
    if card.activation == "sigmoid":
        return np.asarray(1 / (1 + np.exp(-row)))
    return row
