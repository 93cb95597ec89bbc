"""MiniLM from text to embedding: fastqps in process and over gRPC, OpenVINO and onnxruntime, on the same cores.

Every runtime has the same texts, tokenizer and batch sizes, as many threads as cores, and the fastest of its ways
(``peers``). All are measured in turn.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Any

import numpy as np

from bench.load import PATIENCE_S, Load
from bench.peers.environment import PYTHON, install_peers, minilm_onnx
from bench.peers.process import PeerProcess, least_cosine, peer_process
from bench.runner import LOAD_CPU, SERVER_CPU, Bench, Claim, Subject
from bench.texts import request
from fastqps import Engine
from fastqps.bench.results.result import BenchError
from fastqps.host.machine import bfloat16_flags
from fastqps.models.names import resolve
from fastqps.ops.precision import QUANTIZATIONS

TEXTS = 256  # a round of each runtime
COSINE_LEAST = 0.95  # of a quantized answer to ours in fp32: below, something else than rounding is wrong

# Those that this machine and this version have. (name, --dtype, --quantization)
_KINDS = (
    ("fp32", "float32", "none"),
    *([("bf16", "bfloat16", "none")] if bfloat16_flags() else []),
    *([("int8", "auto", "int8")] if "int8" in QUANTIZATIONS else []),
)
_OPENVINO = {"fp32": "f32", "bf16": "bf16", "int8": "int8"}


def measure_peers(bench: Bench, many: Sequence[str]) -> None:
    """Both cores, then one. Raises ``BenchError`` where a runtime answers something else."""
    install_peers()
    texts = list(many[:TEXTS])
    exact = Engine("minilm", dtype="float32").embed(texts)
    for cpus in ((SERVER_CPU, LOAD_CPU), (SERVER_CPU,)):
        with ExitStack() as stack:
            cores = _Cores(replace(bench, stack=stack), texts, exact, cpus)
            cores.bench.measure(cores.subjects(), cores.claims())


class _Cores:
    """All runtimes on the same cores, whose programs end with ``bench``."""

    def __init__(self, bench: Bench, texts: list[str], exact: np.ndarray[Any, Any], cpus: tuple[int, ...]) -> None:
        self.bench, self._cpus, self._exact = bench, cpus, exact
        self._at = f"MiniLM, {len(cpus)} core{'s'[: len(cpus) - 1]}"
        self._texts = bench.folder / f"peer_texts_{len(cpus)}"
        self._texts.write_text(json.dumps(texts))
        self._payloads = bench.write(map(request, texts))
        self._notes: dict[str, str] = {}

    def subjects(self) -> Iterator[Subject]:
        """Peers and our own, each started when it is yielded."""
        _, checkpoint = resolve("minilm")
        limit = Engine("minilm").card.max_input_tokens
        model = [str(len(self._cpus)), str(minilm_onnx()), str(checkpoint / "tokenizer.json"), str(limit)]
        kinds = ["fp32", *(["bf16"] if bfloat16_flags() else []), "int8"]
        programs = [(f"OpenVINO {kind}", "run_openvino", kind) for kind in kinds]
        programs += [(f"onnxruntime {kind}", "run_onnxruntime", kind) for kind in ("fp32", "int8")]
        for name, module, kind in programs:
            peer = (module, _OPENVINO[kind], *model, str(self._texts))
            yield self._started(name, peer_process(*peer, cpus=self._cpus, python=PYTHON))
        for kind, dtype, quantization in _KINDS:
            own = peer_process("run_fastqps", dtype, quantization, str(self._texts), cpus=self._cpus)
            yield self._started(f"fastqps {kind}", own)
            flags = ("--model=minilm", "--device=cpu", f"--dtype={dtype}", f"--quantization={quantization}")
            doors = ("--frontdoors=1", f"--dispatchers={len(self._cpus)}")
            address = self.bench.server(*flags, *doors, cpus=self._cpus).address
            cpu = None if len(self._cpus) > 1 else LOAD_CPU
            load = self.bench.grpc(address, self._payloads, Load(8, 16, deadline_s=PATIENCE_S), cpu=cpu)
            yield Subject(f"{self._at}: fastqps {kind} over gRPC", load)

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
                (own, f"OpenVINO {kind}", 1.0, 1.3),
                (own, f"onnxruntime {kind}", 1.5, None),
                (served, own, 0.95, None),
            ):
                if f"{self._at}: {theirs}" in self._notes:
                    marks = (accept, goal) if asked else (None, None)
                    name = f"{self._at}: {ours} over {theirs}"
                    yield Claim(name, "×", f"{self._at}: {ours}", f"{self._at}: {theirs}", *marks)
