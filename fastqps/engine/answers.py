"""Turns a runner's raw rows into answers, without a server. In a server csrc/step/encode/scatter.cpp does this."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from fastqps.api.prediction import Entity, Label, SparseEmbedding
from fastqps.api.request import Aggregation
from fastqps.models.card import ModelCard
from fastqps.models.tokenizers.spans import TokenSpan, words

Answer = NDArray[np.float32] | list[tuple[str, float]] | list[Entity] | SparseEmbedding

_NORM_MIN = 1e-12  # a zero vector stays zero


def answer(card: ModelCard, row: NDArray[np.float32]) -> Answer:
    """An embedding float32 [dimensions], or (label, score) of every label, best first; equal scores in label order.

    Of a model with sparse embeddings, that of the row.
    """
    if card.traits.form == "vector":
        return embedding(card, row)
    if card.traits.form == "sparse":
        return sparse_embedding(card, row)
    return [(label.name, label.score) for label in best_labels(card, row)]


def best_labels(
    card: ModelCard, row: NDArray[np.float32], top_labels: int | None = None, raw_scores: bool = False
) -> list[Label]:
    """The ``top_labels`` best labels, or all of them, best first; equal scores in label order."""
    logits = row.astype(np.float64)
    scores = logits if raw_scores else _scores(card, logits)
    order = np.argsort(-scores, kind="stable")[:top_labels]
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
    embeddings = [embedding(card, row, dimensions, normalize) for row in rows]
    return np.array(embeddings, np.float32).reshape(len(rows), dimensions or card.dimensions)


def _scores(card: ModelCard, row: NDArray[np.float64]) -> NDArray[np.float64]:
    if card.activation == "softmax":
        exponentials = np.exp(row - row.max())
        return np.asarray(exponentials / exponentials.sum())
    if card.activation == "sigmoid":
        return np.asarray(1 / (1 + np.exp(-row)))
    return row


_OUTSIDE = "O"  # no entity
_BY_TOKEN = ("none", "simple")


def entities(
    labels: Sequence[str], rows: NDArray[np.float32], spans: Sequence[TokenSpan | None], aggregation: Aggregation
) -> list[Entity]:
    """The entities of one text, as transformers' pipeline makes them. rows: [tokens, labels], one for each span."""
    exponentials = np.exp(rows - rows.max(axis=1, keepdims=True))
    scores = exponentials / exponentials.sum(axis=1, keepdims=True)
    labelled = _labelled(labels, scores, spans, aggregation)
    joined = labelled if aggregation == "none" else _joined(labelled)
    return [entity for entity in joined if entity.label != _OUTSIDE]


def _labelled(
    labels: Sequence[str], scores: NDArray[np.float32], spans: Sequence[TokenSpan | None], aggregation: Aggregation
) -> Iterator[Entity]:
    """Each token or word with its label."""
    groups = [range(i, i + 1) for i in range(len(spans))] if aggregation in _BY_TOKEN else words(spans)
    for group in groups:
        first, last = spans[group[0]], spans[group[-1]]
        if first is None or last is None:
            continue
        row = _row(scores[group.start : group.stop], aggregation)
        best = int(row.argmax())
        yield Entity(labels[best], float(row[best]), first.start, last.end)


def _row(scores: NDArray[np.float32], aggregation: Aggregation) -> NDArray[np.float32]:
    if aggregation == "average":
        return np.asarray(scores.mean(axis=0))
    return np.asarray(scores[scores.max(axis=1).argmax()] if aggregation == "max" else scores[0])


def _joined(entities: Iterator[Entity]) -> Iterator[Entity]:
    """Neighbours of one kind as one entity. One that begins with B- begins another."""
    group: list[Entity] = []
    for entity in entities:
        if group and (entity.label.startswith("B-") or _kind(entity.label) != _kind(group[-1].label)):
            yield _whole(group)
            group = []
        group.append(entity)
    if group:
        yield _whole(group)


def _kind(label: str) -> str:
    return label[2:] if label.startswith(("B-", "I-")) else label


def _whole(group: Sequence[Entity]) -> Entity:
    score = float(np.mean([entity.score for entity in group], dtype=np.float32))
    return Entity(group[0].label.split("-", 1)[-1], score, group[0].start, group[-1].end)
