"""MiniLM from text to embedding: fastqps in process and over gRPC, OpenVINO and onnxruntime, on the same cores.

Every runtime has the same texts, tokenizer and batch sizes, as many threads as cores, and the fastest of its ways
(``peers``). All are measured in turn.
"""

from __future__ import annotations

import json
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from bench.environment import two_cpus
from bench.load import PATIENCE_S, PREDICT, Load, loadgen
from bench.peers.environment import PYTHON, install_peers, minilm_onnx
from bench.peers.process import PeerProcess, least_cosine, peer_process
from bench.row import Row
from bench.texts import request
from fastqps import Engine
from fastqps.bench.measure.workload import write_messages
from fastqps.bench.results.result import BenchError
from fastqps.host.machine import bfloat16_flags
from fastqps.models.names import resolve
from fastqps.ops.precision import QUANTIZATIONS
from fastqps.process.server_process import ServerProcess

TEXTS = 256  # a round of each runtime
COSINE_LEAST = 0.95  # of a quantized answer to ours in fp32: below, something else than rounding is wrong
_SERVER_CPU, _LOAD_CPU = two_cpus()

# Those that this machine and this version have. (name, --dtype, --quantization)
_KINDS = (
    ("fp32", "float32", "none"),
    *([("bf16", "bfloat16", "none")] if bfloat16_flags() else []),
    *([("int8", "auto", "int8")] if "int8" in QUANTIZATIONS else []),
)
_OPENVINO = {"fp32": "f32", "bf16": "bf16", "int8": "int8"}


def measure_peers(
    folder: Path, many: Sequence[str], repetitions: int, seconds: float
) -> tuple[list[Row], list[dict[str, Any]]]:
    """Rows and points for both cores, then for one. Raises ``BenchError`` where a runtime answers something else."""
    install_peers()
    texts = list(many[:TEXTS])
    exact = Engine("minilm", dtype="float32").embed(texts)
    rows: list[Row] = []
    points: list[dict[str, Any]] = []
    for cpus in ((_SERVER_CPU, _LOAD_CPU), (_SERVER_CPU,)):
        measured = _Cores(folder, texts, exact, cpus)
        measured.measure(repetitions, seconds)
        rows += measured.rows()
        points += measured.points()
    return rows, points


class _Cores:
    """All runtimes on the same cores."""

    def __init__(self, folder: Path, texts: list[str], exact: np.ndarray[Any, Any], cpus: tuple[int, ...]) -> None:
        self._cpus, self._exact = cpus, exact
        self._at = f"MiniLM, {len(cpus)} core{'s'[: len(cpus) - 1]}"
        self._texts = folder / "peer_texts"
        self._texts.write_text(json.dumps(texts))
        self._payloads = write_messages(folder / "peer_payloads", map(request, texts))
        self._rates: dict[str, list[float]] = defaultdict(list)
        self._notes: dict[str, str] = {}

    def measure(self, repetitions: int, seconds: float) -> None:
        with ExitStack() as stack:
            runs = self._peers(stack, seconds) | self._own(stack, seconds)
            for _ in range(repetitions):
                for name, run in runs.items():
                    self._rates[name].append(run())

    def _peers(self, stack: ExitStack, seconds: float) -> dict[str, Callable[[], float]]:
        _, checkpoint = resolve("minilm")
        limit = Engine("minilm").card.max_input_tokens
        model = [str(len(self._cpus)), str(minilm_onnx()), str(checkpoint / "tokenizer.json"), str(limit)]
        kinds = ["fp32", *(["bf16"] if bfloat16_flags() else []), "int8"]
        started = {f"OpenVINO {kind}": ("run_openvino", _OPENVINO[kind]) for kind in kinds}
        started |= {f"onnxruntime {kind}": ("run_onnxruntime", _OPENVINO[kind]) for kind in ("fp32", "int8")}
        runs: dict[str, Callable[[], float]] = {}
        for name, (module, precision) in started.items():
            peer = peer_process(module, precision, *model, str(self._texts), cpus=self._cpus, python=PYTHON)
            runs[name] = self._started(stack, name, peer, seconds)
        return runs

    def _own(self, stack: ExitStack, seconds: float) -> dict[str, Callable[[], float]]:
        runs: dict[str, Callable[[], float]] = {}
        for kind, dtype, quantization in _KINDS:
            name = f"fastqps {kind}"
            peer = peer_process("run_fastqps", dtype, quantization, str(self._texts), cpus=self._cpus)
            runs[name] = self._started(stack, name, peer, seconds)
            flags = ("--model=minilm", "--device=cpu", f"--dtype={dtype}", f"--quantization={quantization}")
            doors = ("--frontdoors=1", f"--dispatchers={len(self._cpus)}")
            server = stack.enter_context(ServerProcess(*flags, *doors, cpus=self._cpus))
            runs[f"{name} over gRPC"] = lambda server=server: self._served(server, seconds)  # type: ignore[misc]
        return runs

    def _started(
        self, stack: ExitStack, name: str, starting: AbstractContextManager[PeerProcess], seconds: float
    ) -> Callable[[], float]:
        began = time.monotonic()
        peer = stack.enter_context(starting)
        cosine = least_cosine(peer.answers, self._exact)
        if cosine < COSINE_LEAST:
            raise BenchError(f"{name}: an answer has cosine {cosine:.4f} to fastqps in fp32, at least {COSINE_LEAST}")
        self._notes[name] = f"in process; {peer.way}; least cosine {cosine:.4f}"
        print(f"{self._at}: {name} started after {time.monotonic() - began:.0f} s", flush=True)
        return lambda: peer.rate(seconds)[0]

    def _served(self, server: ServerProcess, seconds: float) -> float:
        cpu = None if len(self._cpus) > 1 else _LOAD_CPU
        return float(
            loadgen(server.address, PREDICT, self._payloads, Load(8, 16, seconds, deadline_s=PATIENCE_S), cpu)["rate"]
        )

    def rows(self) -> list[Row]:
        """The rate of each, then the ratios that are asked for."""
        rate = {name: statistics.median(rates) for name, rates in self._rates.items()}
        notes = self._notes
        found = [Row(f"{self._at}: {name}", value, "/s", note=notes.get(name, "")) for name, value in rate.items()]

        def ratio(ours: str, theirs: str, accept: float | None = None, goal: float | None = None) -> None:
            if ours in rate and theirs in rate:
                asked = (accept, goal) if len(self._cpus) > 1 else (None, None)
                found.append(Row(f"{self._at}: {ours} over {theirs}", rate[ours] / rate[theirs], "×", *asked))

        for kind, _, _ in _KINDS:
            accept, goal = (1.0, 1.3) if kind == "int8" else (None, None)
            ratio(f"fastqps {kind}", f"OpenVINO {kind}", accept, goal)
            ratio(f"fastqps {kind}", f"onnxruntime {kind}", 1.5 if kind == "int8" else None)
            ratio(f"fastqps {kind} over gRPC", f"fastqps {kind}", 0.95 if kind == "int8" else None)
        return found

    def points(self) -> list[dict[str, Any]]:
        """All raw figures."""
        return [{"name": f"{self._at}: {name}", "rates": rates} for name, rates in self._rates.items()]
