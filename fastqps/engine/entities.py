"""Turns a token classifier's rows into entities. In a server csrc/step/encode and csrc/predict/answers do this."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from fastqps.api.prediction import Entity
from fastqps.api.request import Aggregation
from fastqps.models.tokenizers.spans import TokenSpan, words

_OUTSIDE = "O"  # no entity
_BY_TOKEN = ("none", "simple")


def entities(
    labels: Sequence[str], rows: NDArray[np.float32], spans: Sequence[TokenSpan | None], aggregation: Aggregation
) -> list[Entity]:
    """The entities of one text, as transformers' pipeline makes them. rows: [tokens, labels], one for each span."""
    exponentials = np.exp(rows - rows.max(axis=1, keepdims=True))
    scores = exponentials / exponentials.sum(axis=1, keepdims=True)
    found = _labelled(labels, scores, spans, aggregation)
    joined = found if aggregation == "none" else _joined(found)
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


def _joined(found: Iterator[Entity]) -> Iterator[Entity]:
    """Neighbours of one kind as one entity. One that begins with B- begins another."""
    group: list[Entity] = []
    for entity in found:
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
