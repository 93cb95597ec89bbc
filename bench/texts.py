"""Texts of MiniLM's words, always the same ones, and the requests that carry them."""

from __future__ import annotations

import functools
import random
import struct
from collections.abc import Sequence
from pathlib import Path

from fastqps.bench.measure.workload import vocabulary_of
from fastqps.models.names import resolve
from fastqps.v1 import predict_pb2 as pb
from loadgen import texts as made


@functools.cache
def _vocabulary() -> list[str]:
    return vocabulary_of(resolve("minilm")[1])


def texts(count: int, words: int = 30, seed: int = 1) -> list[str]:
    """``count`` different texts of ``words`` words each, with the frequencies of natural language."""
    return list(made.texts(made.parse(str(words)), count, random.Random(seed), _vocabulary()))


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
