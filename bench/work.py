"""Real embeddings over gRPC against sentence-transformers in its own process, on the same cores and texts.

Then against OpenVINO and onnxruntime: ``work_peers``.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from bench.load import PATIENCE_S, PREDICT, PREDICT_BATCH, Load, loadgen, read_samples
from bench.row import Row
from bench.texts import batches, request, texts
from bench.work_peers import measure_peers
from fastqps import Client
from fastqps.api.prediction import PredictionError
from fastqps.bench.measure.workload import write_messages
from fastqps.bench.results.result import BenchError
from fastqps.host.machine import bfloat16_flags
from fastqps.models.names import resolve
from fastqps.process.server_process import ServerProcess

THREADS = 2
TEXTS, BATCH = 512, 64
COSINE_MIN = 0.999
DTYPE = "bfloat16" if bfloat16_flags() else "float32"  # of both sides
_LAYERS = 6
_SHAPES = ((384, 1152), (384, 384), (384, 1536), (1536, 384))  # inputs, outputs of each layer's products


def measure(folder: Path, repetitions: int, seconds: float) -> tuple[list[Row], list[dict[str, Any]]]:
    """Unary and batch calls, the peer and the bound, in turn. Raises ``BenchError`` if an answer is wrong."""
    torch.set_num_threads(THREADS)
    many = texts(TEXTS, seed=2)
    peer = _Peer(many)
    flags = ("--model", "minilm", "--device", "cpu", "--dtype", DTYPE, "--frontdoors", "1", "--dispatchers", "2")
    unary = write_messages(folder / "unary", map(request, many))
    batch = write_messages(folder / "batch", batches(many, BATCH))
    with ServerProcess(*flags) as server:

        def predict() -> float:
            kept = folder / "kept"
            load = Load(8, 32, seconds, deadline_s=PATIENCE_S)
            rate = loadgen(server.address, PREDICT, unary, load, samples=kept)["rate"]
            peer.check(kept)
            return float(rate)

        def predict_batch() -> float:
            return BATCH * float(
                loadgen(server.address, PREDICT_BATCH, batch, Load(2, 2, seconds, deadline_s=PATIENCE_S))["rate"]
            )

        runs: dict[str, Callable[[], float]] = {
            "sentence-transformers": lambda: peer.rate(seconds),
            "Predict": predict,
            "PredictBatch": predict_batch,
            "PredictStream": lambda: _stream_rate(server.address, many, seconds),
            "matrix products": lambda: _bound(peer.tokens_mean, seconds / 4),
        }
        rates: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(repetitions):
            for name, run in runs.items():
                rates[name].append(run())
    median = {name: statistics.median(found) for name, found in rates.items()}
    points = [{"name": n, "rate": median[n], "rates": r} for n, r in rates.items()]
    other_rows, other_points = measure_peers(folder, many, repetitions, seconds)
    return [*_rows(median, peer), *other_rows], [*points, *other_points]


def _stream_rate(address: str, many: list[str], seconds: float) -> float:
    """Texts per second through one PredictStream call of the Python client, which takes its share of the cores."""
    began, done = time.perf_counter(), 0

    def until_over() -> Iterator[str]:
        for text in itertools.cycle(many):
            if time.perf_counter() - began > seconds:
                return
            yield text

    with Client(address) as client:
        for answer in client.predict_stream(until_over()):
            if isinstance(answer, PredictionError):
                raise BenchError(f"PredictStream: {answer.error}")
            done += 1
    return done / (time.perf_counter() - began)


class _Peer:
    """sentence-transformers in bf16, and what it says of each text."""

    def __init__(self, many: list[str]) -> None:
        self._texts = many
        _, path = resolve("minilm")
        self._model = SentenceTransformer(str(path), device="cpu", model_kwargs={"dtype": getattr(torch, DTYPE)})
        self._exact = SentenceTransformer(str(path), device="cpu").encode(many, batch_size=BATCH)
        lengths = [len(self._model.tokenizer.encode(text)) for text in many]
        self.tokens_mean = statistics.fmean(lengths)
        self.cosine_least = 1.0

    def rate(self, seconds: float) -> float:
        """Texts per second of ``encode`` over all texts, as often as fits into ``seconds``, at least once."""
        began, done = time.perf_counter(), 0
        while not done or time.perf_counter() - began < seconds:
            self._model.encode(self._texts, batch_size=BATCH, convert_to_numpy=True)
            done += len(self._texts)
        return done / (time.perf_counter() - began)

    def check(self, kept: Path) -> None:
        """Compares the server's kept answers with the exact ones."""
        answers = list(read_samples(kept))
        if not answers:
            raise BenchError("no answer was kept")
        for payload, answer in answers:
            values = np.asarray(answer.embedding.values, np.float32)
            cosine = float(values @ self._exact[payload]) if values.shape == self._exact[payload].shape else -1.0
            self.cosine_least = min(self.cosine_least, cosine)
        if self.cosine_least < COSINE_MIN:
            raise BenchError(f"an answer has cosine {self.cosine_least:.5f} to sentence-transformers' in fp32")


def _bound(tokens_mean: float, seconds: float) -> float:
    """Texts per second if only the model's matrix products had to be done, with packed weights, on THREADS cores: one
    core's rate times THREADS, so that no thread waits for another one."""
    torch.set_num_threads(1)
    rows = round(BATCH * tokens_mean)
    inputs = {width: torch.randn(rows, width, dtype=getattr(torch, DTYPE)) for width, _ in _SHAPES}
    weights = [torch.randn(outputs, width, dtype=getattr(torch, DTYPE)) for width, outputs in _SHAPES]
    packed = [torch.ops.mkldnn._reorder_linear_weight(weight, rows) for weight in weights]
    began, done = time.perf_counter(), 0
    while not done or time.perf_counter() - began < seconds:
        for _ in range(_LAYERS):
            for (width, _), weight in zip(_SHAPES, packed, strict=True):
                torch.ops.mkldnn._linear_pointwise(inputs[width], weight, None, "none", [], "")
        done += BATCH
    rate = THREADS * done / (time.perf_counter() - began)
    torch.set_num_threads(THREADS)
    return rate


def _rows(rate: dict[str, float], peer: _Peer) -> list[Row]:
    other = rate["sentence-transformers"]
    bound = f"matrix products alone: {rate['matrix products']:,.0f}/s"
    note = f"{THREADS} cores, {DTYPE}, {peer.tokens_mean:.0f} tokens; least cosine {peer.cosine_least:.5f}; {bound}"
    return [
        Row("MiniLM texts over gRPC, Predict", rate["Predict"], "/s", note=note),
        Row("MiniLM texts over gRPC, PredictBatch of 64", rate["PredictBatch"], "/s"),
        Row("MiniLM texts over gRPC, PredictStream", rate["PredictStream"], "/s", note="Python client, same cores"),
        Row("sentence-transformers encode, in-process", other, "/s", note=f"{DTYPE}, batch {BATCH}"),
        Row("Predict over sentence-transformers", rate["Predict"] / other, "×", 1.3, 1.6),
        Row("PredictBatch over sentence-transformers", rate["PredictBatch"] / other, "×", 1.3, 1.6),
    ]
