"""A static model over gRPC, the server on one core: against model2vec in process on that core, and the null device.

The table is of potion-base-8M's shape (``static_model``), the texts are those of the other parts.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.environment import two_cpus
from bench.load import PREDICT, PREDICT_BATCH, Load, loadgen, read_samples
from bench.peers.process import PeerProcess, peer_process
from bench.row import Row
from bench.static_model import write_static_model
from bench.texts import batches, request, texts
from fastqps.bench.measure.processes import cpu_by_role
from fastqps.bench.measure.workload import write_messages
from fastqps.bench.results.result import BenchError
from fastqps.process.server_process import ServerProcess

SERVER_CPU, LOAD_CPU = two_cpus()
TEXTS, PEER_TEXTS, BATCH = 20_000, 4096, 64
UNARY, BATCHES = Load(16, 64), Load(8, 4)
CLOSE = 1e-5


@dataclass
class Point:
    """One way to embed texts. ``rates``: texts per second; ``cpu_us``: of all its processes, per text."""

    name: str
    rates: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    generator_bound: int = 0  # of the runs

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)

    @property
    def cost_us(self) -> float:
        return statistics.median(self.cpu_us)


def measure(folder: Path, repetitions: int, seconds: float) -> tuple[list[Row], list[dict[str, Any]]]:
    """All points in turn, ``repetitions`` times. ``BenchError`` if an answer differs from model2vec's."""
    model, many = write_static_model(folder / "model"), texts(TEXTS)
    (folder / "texts").write_text(json.dumps(many[:PEER_TEXTS]))
    unary = write_messages(folder / "unary", map(request, many))
    checked = write_messages(folder / "checked", map(request, many[:PEER_TEXTS]))
    batch = write_messages(folder / "batch", batches(many, BATCH))
    flags = ("--model", f"static={model}", "--frontdoors", "1", "--dispatchers", "1")
    with (
        ServerProcess(*flags, "--device", "cpu", cpus=[SERVER_CPU]) as served,
        ServerProcess(*flags, "--device", "null", cpus=[SERVER_CPU]) as null,
        peer_process("run_model2vec", str(model), str(folder / "texts"), cpus=[SERVER_CPU]) as peer,
    ):
        _check(served.address, checked, folder / "kept", peer.answers)
        runs: dict[str, Callable[[Point], None]] = {
            "model2vec encode": partial(_measure_peer, peer, seconds),
            "Predict": partial(_measure, served, PREDICT, unary, _lasting(UNARY, seconds), 1),
            "null device, Predict": partial(_measure, null, PREDICT, unary, _lasting(UNARY, seconds), 1),
            "PredictBatch": partial(_measure, served, PREDICT_BATCH, batch, _lasting(BATCHES, seconds), BATCH),
        }
        points = {name: Point(name) for name in runs}
        for _ in range(repetitions):
            for name, run in runs.items():
                run(points[name])
    return _rows(points), [vars(point) | {"rate": point.rate} for point in points.values()]


def _lasting(load: Load, seconds: float) -> Load:
    return Load(load.connections, load.inflight, seconds)


def _check(address: str, unary: Path, kept: Path, wanted: np.ndarray[Any, np.dtype[np.float32]]) -> None:
    loadgen(address, PREDICT, unary, Load(4, 16, 1.0), LOAD_CPU, samples=kept)
    answers = list(read_samples(kept))
    worst = max(float(np.abs(np.array(a.embedding.values) - wanted[payload]).max()) for payload, a in answers)
    if worst > CLOSE:
        raise BenchError(f"an answer differs from model2vec's by {worst:.1e}, more than {CLOSE}")


def _measure(server: ServerProcess, method: str, payloads: Path, load: Load, items: int, point: Point) -> None:
    before = cpu_by_role(server.pid)
    found = loadgen(server.address, method, payloads, load, LOAD_CPU)
    spent = {role: value - before[role] for role, value in cpu_by_role(server.pid).items() if role != "kernel"}
    point.rates.append(items * float(found["rate"]))
    point.generator_bound += found["verdict"] == "INVALID"
    point.cpu_us.append(1e6 * sum(spent.values()) / (items * sum(found["status_with_warmup"].values())))


def _measure_peer(peer: PeerProcess, seconds: float, point: Point) -> None:
    rate, cpu_s = peer.rate(seconds)
    point.rates.append(rate)
    point.cpu_us.append(1e6 * cpu_s)


def _rows(points: dict[str, Point]) -> list[Row]:
    peer, unary = points["model2vec encode"], points["Predict"]
    null, batch = points["null device, Predict"], points["PredictBatch"]
    bound = sum(point.generator_bound for point in points.values())
    note = f"one core; {unary.cost_us:.2f} µs of CPU a text" + (
        f"; loadgen was the limit in {bound} runs" if bound else ""
    )
    return [
        Row("static model over gRPC, Predict", unary.rate, "/s", note=note),
        Row(f"… PredictBatch of {BATCH}", batch.rate, "/s", note=f"{batch.cost_us:.2f} µs of CPU a text"),
        Row("model2vec encode, in process", peer.rate, "/s", note=f"same core; {peer.cost_us:.1f} µs of CPU a text"),
        Row("static Predict over model2vec encode", unary.rate / peer.rate, "×", 5, 8),
        Row("… by CPU time", peer.cost_us / unary.cost_us, "×"),
        Row("static Predict over the null device", unary.rate / null.rate, "×", 0.65, note=f"{null.rate:,.0f}/s"),
        Row("… by CPU time", null.cost_us / unary.cost_us, "×"),
        Row("static PredictBatch over Predict", batch.rate / unary.rate, "×", 2.5),
        Row("… by CPU time", unary.cost_us / batch.cost_us, "×"),
    ]
