"""What clients have to bring back: the answers of this server's own ``Predict`` and ``Generate``."""

from __future__ import annotations

from typing import Any

import numpy as np
from questions import DOCUMENTS, PROMPT, QUERY, TEXT

import fastqps

COUNT_MAX = 20


def check_one(found: Any, client: fastqps.Client, text: Any = TEXT, **options: Any) -> None:
    """Each vector in ``found``, of a request with one text, is the expected one bit by bit: a double holds a float32."""
    expected = client.predict(text, **options).embedding
    assert found
    for each in found:
        assert np.array_equal(np.array(each, np.float64), expected.astype(np.float64))


def check_near(found: Any, texts: list[str], client: fastqps.Client) -> None:
    """The vectors of ``texts``, any number of times in their order. Steps that items share round differently."""
    found = np.array(found, np.float64)
    expected = np.stack([client.predict(text).embedding for text in texts]).astype(np.float64)
    assert len(found) and len(found) % len(expected) == 0
    for each in found.reshape(-1, *expected.shape):
        assert np.abs(each - expected).max() <= 1e-5
        cosines = (each * expected).sum(1) / np.linalg.norm(each, axis=1) / np.linalg.norm(expected, axis=1)
        assert cosines.min() >= 0.9999


def generated(client: fastqps.Client) -> str:
    return client.generate(PROMPT, model="grammar", max_tokens=COUNT_MAX).text


def logits(address: str) -> list[float]:
    """The cross-encoder's score of each document."""
    with fastqps.Client(address) as client:
        pairs = [(QUERY, document) for document in DOCUMENTS]
        return [float(client.predict(pair, model="ranker", raw_scores=True).labels[0].score) for pair in pairs]
