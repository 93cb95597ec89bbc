"""What clients have to bring back: the answers of this server's own ``Predict`` and ``Generate``.

The vectors are those of a static model, whose items do not depend on what shares a step with them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from questions import COUNT_MAX, DOCUMENTS, PROMPT, QUERY, TEXT, TEXTS

import fastqps


def check(found: Any, client: fastqps.Client, text: Any = TEXT, **options: Any) -> None:
    """Each vector in ``found`` is that of the text bit by bit: decimals in JSON read back as the same float32."""
    expected = client.predict(text, **options).embedding
    assert found
    for each in found:
        assert np.array_equal(np.array(each, np.float32), expected)


def check_texts(found: Any, client: fastqps.Client, **options: Any) -> None:
    """``found`` has the vectors of ``TEXTS``, any number of times in their order."""
    assert found and len(found) % len(TEXTS) == 0
    for i, text in enumerate(TEXTS):
        check(found[i :: len(TEXTS)], client, text, **options)


def generated(client: fastqps.Client) -> str:
    return client.generate(PROMPT, model="grammar", max_tokens=COUNT_MAX).text


def logits(address: str) -> list[float]:
    """The cross-encoder's score of each document."""
    with fastqps.Client(address) as client:
        pairs = [(QUERY, document) for document in DOCUMENTS]
        return [float(client.predict(pair, model="ranker", raw_scores=True).labels[0].score) for pair in pairs]


def check_ranks(found: list[list[Any]], scores: list[float]) -> None:
    """Pairs of index and score, best first, and none missing."""
    assert sorted(index for index, _ in found) == list(range(len(scores)))
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
    for index, score in found:
        assert score == pytest.approx(scores[index], abs=1e-5)
