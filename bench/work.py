"""Real embeddings over gRPC against sentence-transformers in its own process, on the same cores and texts.

Then against OpenVINO and onnxruntime: ``work_peers``.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from bench.load import PATIENCE_S, PREDICT_BATCH, Load, read_samples
from bench.runner import Bench, Claim, Run, Subject, Subjects
from bench.texts import batches, request, texts
from bench.work_peers import measure_peers
from fastqps import Client
from fastqps.api.prediction import PredictionError
from fastqps.bench.results.result import BenchError
from fastqps.host.machine import bfloat16_flags
from fastqps.models.names import resolve
from fastqps.process.server_process import ServerProcess

THREADS = 2
TEXTS, BATCH = 512, 64
COSINE_MIN = 0.999
DTYPE = "bfloat16" if bfloat16_flags() else "float32"  # of both sides
PEER = "sentence-transformers"
CLAIMS = (
    Claim("MiniLM texts over gRPC, PredictBatch of 64", "/s", "PredictBatch"),
    Claim("MiniLM texts over gRPC, PredictStream", "/s", "PredictStream", note="Python client, same cores"),
    Claim("sentence-transformers encode, in-process", "/s", PEER, note=f"{DTYPE}, batch {BATCH}"),
    Claim("Predict over sentence-transformers", "×", "Predict", PEER, 1.3, 1.6),
    Claim("PredictBatch over sentence-transformers", "×", "PredictBatch", PEER, 1.3, 1.6),
)


def measure(bench: Bench) -> None:
    """Unary and batch calls and the peer, in turn. Raises ``BenchError`` if an answer is wrong."""
    torch.set_num_threads(THREADS)
    many = texts(TEXTS, seed=2)
    peer, kept = _Peer(many), bench.folder / "kept"
    flags = ("--model", "minilm", "--device", "cpu", "--dtype", DTYPE, "--frontdoors", "1", "--dispatchers", "2")
    with ServerProcess(*flags) as server:
        unary, batch = bench.write(map(request, many)), bench.write(batches(many, BATCH))
        load, few = Load(8, 32, deadline_s=PATIENCE_S), Load(2, 2, deadline_s=PATIENCE_S)
        checked = bench.grpc(server.address, unary, load, cpu=None, samples=kept)

        def predict() -> Run:
            found = checked()
            peer.check(kept)
            return found

        def note(found: Subjects) -> str:
            return f"{THREADS} cores, {DTYPE}; least cosine {peer.cosine_least:.5f}"

        subjects = [
            Subject(PEER, bench.calls(peer.encode)),
            Subject("Predict", predict),
            Subject("PredictBatch", bench.grpc(server.address, batch, few, PREDICT_BATCH, items=BATCH, cpu=None)),
            Subject("PredictStream", lambda: {"rate": _stream_rate(server.address, many, bench.seconds)}),
        ]
        bench.measure(subjects, [Claim("MiniLM texts over gRPC, Predict", "/s", "Predict", note=note), *CLAIMS])
    measure_peers(bench, many)


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
        self.cosine_least = 1.0

    def encode(self) -> int:
        """All texts once."""
        self._model.encode(self._texts, batch_size=BATCH, convert_to_numpy=True)
        return len(self._texts)

    def check(self, kept: Path) -> None:
        """Compares the server's kept answers with the exact ones."""
        answers = list(read_samples(kept))
        found = [np.asarray(answer.embedding.values, np.float32) @ self._exact[payload] for payload, answer in answers]
        self.cosine_least = min(self.cosine_least, float(min(found, default=-1.0)))
        if self.cosine_least < COSINE_MIN:
            raise BenchError(f"an answer has cosine {self.cosine_least:.5f} to sentence-transformers' in fp32")
