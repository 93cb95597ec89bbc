"""Texts of ordinary words, always the same ones, and the requests that carry them."""

from __future__ import annotations

import functools
import itertools
import json
import random
import struct
from collections.abc import Sequence
from pathlib import Path

from fastqps.models.names import resolve
from fastqps.v1 import predict_pb2 as pb

_WORDS = 20_000  # the commonest of the model's vocabulary
# Share of words that are two words in one, as names and inflected words are: they split into pieces. Of 600,000 words
# about 3 % then occur only once, roughly as in English text of that length.
_COMPOUND = 0.04


@functools.cache
def _vocabulary() -> tuple[list[str], list[float]]:
    """Words of MiniLM's vocabulary, which is ordered by frequency, and how often each is to be drawn (Zipf)."""
    _, path = resolve("minilm")
    vocab: dict[str, int] = json.loads((path / "tokenizer.json").read_text())["model"]["vocab"]
    words = [word for word, _ in sorted(vocab.items(), key=lambda item: item[1]) if word.isascii() and word.isalpha()]
    words = [word for word in words if len(word) > 1][:_WORDS]
    return words, [1 / (rank + 3) for rank in range(len(words))]


def texts(count: int, words: int = 30, seed: int = 1) -> list[str]:
    """``count`` different texts of ``words`` words each, with the frequencies of natural language."""
    rng = random.Random(seed)
    vocabulary, weights = _vocabulary()
    cumulative = list(itertools.accumulate(weights))
    found: dict[str, None] = {}
    while len(found) < count:
        drawn = rng.choices(vocabulary, cum_weights=cumulative, k=words)
        tails = rng.choices(vocabulary, cum_weights=cumulative, k=words)
        pairs = zip(drawn, tails, strict=True)
        found[" ".join(word + tail if rng.random() < _COMPOUND else word for word, tail in pairs)] = None
    return list(found)


def request(text: str, dimensions: int = 0) -> pb.PredictRequest:
    """A request for one text; ``dimensions`` 0: the whole embedding."""
    output = pb.OutputOptions(dimensions=dimensions) if dimensions else None
    return pb.PredictRequest(text=text, output=output)


def batches(items: Sequence[str], size: int) -> list[pb.PredictBatchRequest]:
    """The texts in PredictBatch requests of ``size`` items."""
    parts = [items[at : at + size] for at in range(0, len(items), size)]
    return [pb.PredictBatchRequest(items=[request(text) for text in part]) for part in parts]


def write_body(path: Path, message: pb.PredictRequest) -> Path:
    """Writes the body of a call, a gRPC frame, as h2load takes it."""
    body = message.SerializeToString()
    path.write_bytes(struct.pack(">BI", 0, len(body)) + body)
    return path
