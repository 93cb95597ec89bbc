"""Real embeddings over gRPC against sentence-transformers in its own process, on the same cores and texts.

Then MiniLM from text to embedding, by fastqps in process and over gRPC, OpenVINO and onnxruntime: every runtime has the
same texts, tokenizer and batch sizes, as many threads as cores, and the fastest of its ways (``peers``).
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from bench.load import PATIENCE_S, PREDICT_BATCH, Load, read_samples
from bench.peers.process import PYTHON, PeerProcess, install_peers, least_cosine, minilm_onnx, peer_process
from bench.runner import LOAD_CPU, SERVER_CPU, Bench, Claim, Run, Subject, Subjects
from bench.texts import batches, request, texts
from fastqps import Client, Engine
from fastqps.api.prediction import PredictionError
from fastqps.bench.results.result import BenchError
from fastqps.host.machine import bfloat16_flags, cpu_flags
from fastqps.models.names import resolve
from fastqps.process.server_process import ServerProcess

THREADS = 2
TEXTS, BATCH = 512, 64
COSINE_MIN = 0.999
DTYPE = "bfloat16" if bfloat16_flags() else "float32"  # of both sides
PEER_TEXTS = 256  # a round of each runtime
COSINE_LEAST = 0.95  # of a quantized answer to ours in fp32: below, something else than rounding is wrong
# Those that this machine has: (name, --dtype, --quantization)
_KINDS = (
    ("fp32", "float32", "none"),
    *([("bf16", "bfloat16", "none")] if bfloat16_flags() else []),
    ("int8", "auto", "int8"),
)
_PEERS = {"OpenVINO": ("fp32", "bf16", "int8"), "onnxruntime": ("fp32", "int8")}
_OPENVINO = {"fp32": "f32", "bf16": "bf16", "int8": "int8"}
_OVER_OPENVINO = (1.5, 2.0) if "amx_int8" in cpu_flags() else (1.0, 1.3)  # of int8 on both cores, asked and hoped for
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
            figures = checked()
            peer.check(kept)
            return figures

        def note(subjects: Subjects) -> str:
            return f"{THREADS} cores, {DTYPE}; least cosine {peer.cosine_least:.5f}"

        subjects = [
            Subject(PEER, bench.calls(peer.encode)),
            Subject("Predict", predict),
            Subject("PredictBatch", bench.grpc(server.address, batch, few, PREDICT_BATCH, items=BATCH, cpu=None)),
            Subject("PredictStream", lambda: {"rate": _stream_rate(server.address, many, bench.seconds)}),
        ]
        bench.measure(subjects, [Claim("MiniLM texts over gRPC, Predict", "/s", "Predict", note=note), *CLAIMS])
    _measure_peers(bench, many)


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
        vectors = ((np.asarray(answer.embedding.values, np.float32), self._exact[i]) for i, answer in answers)
        cosines = [vector @ exact for vector, exact in vectors]
        self.cosine_least = min(self.cosine_least, float(min(cosines, default=-1.0)))
        if self.cosine_least < COSINE_MIN:
            raise BenchError(f"an answer has cosine {self.cosine_least:.5f} to sentence-transformers' in fp32")


def _measure_peers(bench: Bench, many: Sequence[str]) -> None:
    """Both cores, then one. Raises ``BenchError`` where a runtime answers something else."""
    peers = install_peers(_PEERS, bench.facts)
    some = list(many[:PEER_TEXTS])
    exact = Engine("minilm", dtype="float32").embed(some)
    for cpus in ((SERVER_CPU, LOAD_CPU), (SERVER_CPU,)):
        with ExitStack() as stack:
            cores = _Cores(replace(bench, stack=stack), some, exact, cpus)
            cores.bench.measure(cores.subjects(peers), cores.claims())


class _Cores:
    """All runtimes on the same cores, whose programs end with ``bench``."""

    def __init__(self, bench: Bench, texts: list[str], exact: np.ndarray[Any, Any], cpus: tuple[int, ...]) -> None:
        self.bench, self._cpus, self._exact = bench, cpus, exact
        self._at = f"MiniLM, {len(cpus)} core{'s'[: len(cpus) - 1]}"
        self._texts = bench.folder / "peer_texts"  # one for all: what a runtime makes of it is kept beside it
        self._texts.write_text(json.dumps(texts))
        self._payloads = bench.write(map(request, texts))
        self._notes: dict[str, str] = {}

    def subjects(self, peers: Sequence[str]) -> Iterator[Subject]:
        """Peers and our own, each started when it is yielded."""
        kinds = ["fp32", *(["bf16"] if bfloat16_flags() else []), "int8"]
        model = self._model() if peers else []
        for peer in peers:
            for kind in (kind for kind in _PEERS[peer] if kind in kinds):
                program = ("encoders", peer.lower(), _OPENVINO[kind], *model, str(self._texts))
                yield self._started(f"{peer} {kind}", peer_process(*program, cpus=self._cpus, python=PYTHON))
        for kind, dtype, quantization in _KINDS:
            own = peer_process("encoders", "fastqps", dtype, quantization, str(self._texts), cpus=self._cpus)
            yield self._started(f"fastqps {kind}", own)
            flags = ("--model=minilm", "--device=cpu", f"--dtype={dtype}", f"--quantization={quantization}")
            doors = ("--frontdoors=1", f"--dispatchers={len(self._cpus)}")
            address = self.bench.server(*flags, *doors, cpus=self._cpus).address
            cpu = None if len(self._cpus) > 1 else LOAD_CPU
            load = self.bench.grpc(address, self._payloads, Load(8, 16, deadline_s=PATIENCE_S), cpu=cpu)
            yield Subject(f"{self._at}: fastqps {kind} over gRPC", load)

    def _model(self) -> list[str]:
        """The arguments of a peer that say what it computes."""
        _, checkpoint = resolve("minilm")
        limit = Engine("minilm").card.max_input_tokens
        return [str(len(self._cpus)), str(minilm_onnx()), str(checkpoint / "tokenizer.json"), str(limit)]

    def _started(self, name: str, starting: AbstractContextManager[PeerProcess]) -> Subject:
        began = time.monotonic()
        peer = self.bench.start(starting)
        cosine = least_cosine(peer.answers, self._exact)
        if cosine < COSINE_LEAST:
            raise BenchError(f"{name}: an answer has cosine {cosine:.4f} to fastqps in fp32, at least {COSINE_LEAST}")
        self._notes[f"{self._at}: {name}"] = f"in process; {peer.way}; least cosine {cosine:.4f}"
        print(f"{self._at}: {name} started after {time.monotonic() - began:.0f} s", flush=True)
        return Subject(f"{self._at}: {name}", lambda: peer.run(self.bench.seconds))

    def claims(self) -> Iterator[Claim]:
        """The rate of each, then the ratios that are asked for: on all cores."""
        rated = [*self._notes, *(f"{self._at}: fastqps {kind} over gRPC" for kind, _, _ in _KINDS)]
        for name in rated:
            yield Claim(name, "/s", name, note=self._notes.get(name, ""))
        for kind, _, _ in _KINDS:
            own, served = f"fastqps {kind}", f"fastqps {kind} over gRPC"
            asked = kind == "int8" and len(self._cpus) > 1
            for ours, theirs, accept, goal in (
                (own, f"OpenVINO {kind}", *_OVER_OPENVINO),
                (own, f"onnxruntime {kind}", 1.5, None),
                (served, own, 0.95, None),
            ):
                if f"{self._at}: {theirs}" in self._notes:
                    marks = (accept, goal) if asked else (None, None)
                    name = f"{self._at}: {ours} over {theirs}"
                    yield Claim(name, "×", f"{self._at}: {ours}", f"{self._at}: {theirs}", *marks)
                    if ours == own:
                        baseline, note = f"{self._at}: {own}", "µs of a text"
                        yield Claim("… by CPU time", "×", f"{self._at}: {theirs}", baseline, figure="cpu_us", note=note)
