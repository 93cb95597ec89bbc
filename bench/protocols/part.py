"""Each protocol on one core with the null device, the load on another one, beside other servers on the same core."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.environment import two_cpus
from bench.load import PREDICT, Load, loadgen
from bench.protocols import peers
from bench.protocols.agreement import Agreement
from bench.protocols.perf_analyzer import install_perf_analyzer
from bench.protocols.requests import BASE64, FLOATS, MODEL_INFER, OIP, TEI, check, http_requests, model_infer
from bench.protocols.rows import rows
from bench.protocols.wrk import CONNECTIONS, HttpRequest, wrk
from bench.row import Row
from bench.texts import request, texts
from fastqps.bench.measure.processes import cpu_by_role
from fastqps.bench.measure.workload import write_messages
from fastqps.process.server_process import ServerProcess

SERVER_CPU, LOAD_CPU = two_cpus()
WARMUP_S = 1.0
Load_ = Callable[[float], tuple[float, int, bool]]  # seconds → answers per second, answers, whether it was the limit


@dataclass
class Point:
    """One protocol of one server. ``rates``: answers per second; ``cpu_us``: of all of its processes, per answer."""

    name: str
    pid: int
    load: Load_
    rates: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    generator_bound: int = 0  # of the runs, as far as the generator knows

    def run(self, seconds: float) -> None:
        """One round."""
        before = cpu_by_role(self.pid)
        rate, answers, bound = self.load(seconds)
        spent = {role: value - before.get(role, 0.0) for role, value in cpu_by_role(self.pid).items()}
        self.rates.append(rate)
        self.generator_bound += bound
        self.cpu_us.append(1e6 * sum(value for role, value in spent.items() if role != "kernel") / answers)

    def to_json(self) -> dict[str, Any]:
        """For the result file. ``core_busy``: the share of its core that the server used, if it had it for itself."""
        rate, cost_us = statistics.median(self.rates), statistics.median(self.cpu_us)
        figures = {"rate": rate, "rates": self.rates, "cpu_us": self.cpu_us, "core_busy": rate * cost_us / 1e6}
        return {"name": self.name, **figures, "generator_bound": self.generator_bound}


def measure(folder: Path, repetitions: int, seconds: float) -> tuple[list[Row], list[dict[str, Any]]]:
    """All points in turn, ``repetitions`` times. ``BenchError`` where protocols differ in an answer."""
    peers.install_servers()
    install_perf_analyzer()
    (text,) = texts(1)
    flags = ("--model", "minilm", "--device", "null", "--frontdoors", "1", "--dispatchers", "1", "--http-port", "0")
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(ServerProcess(*flags, cpus=[SERVER_CPU]))
        check(server.address, server.http, text)
        agreement = stack.enter_context(Agreement(folder, text, SERVER_CPU, LOAD_CPU))
        points = [*_own(server, folder, text), *_peers(stack, folder, text)]
        for point in points:
            point.load(WARMUP_S)
        for _ in range(repetitions):
            for point in points:
                point.run(seconds)
            agreement.run(seconds)
    found = [*(point.to_json() for point in points), *agreement.to_json()]
    return rows({point["name"]: point for point in found}), found


def _own(server: ServerProcess, folder: Path, text: str) -> list[Point]:
    predict = write_messages(folder / "predict", [request(text)])
    infer = write_messages(folder / "infer", [model_infer(text)])
    bodies = http_requests(text)
    address, pid = server.address, server.pid
    return [
        Point("Predict", pid, _grpc(address, PREDICT, predict, Load(16, 64))),
        Point("ModelInfer", pid, _grpc(address, MODEL_INFER, infer, Load(16, 64))),
        Point("Predict, 64 × 1", pid, _grpc(address, PREDICT, predict, Load(CONNECTIONS, 1))),
        *(Point(name, pid, _http(server.http, bodies[name], folder)) for name in (BASE64, FLOATS, OIP, TEI)),
    ]


def _peers(stack: contextlib.ExitStack, folder: Path, text: str) -> list[Point]:
    servers = (peers.triton(folder, SERVER_CPU), peers.mosec(SERVER_CPU), peers.litserve(SERVER_CPU))
    triton_address, mosec_address, litserve_address = (address for address, _ in servers)
    triton, mosec, litserve = (stack.enter_context(server) for _, server in servers)
    echo = HttpRequest("/inference", bytes(4 * 384), {"Content-Type": "application/octet-stream"})
    predict = HttpRequest("/predict", http_requests(text)[FLOATS].body, {"Content-Type": "application/json"})
    return [
        # With more in flight its rate falls.
        Point("Triton ModelInfer", triton.pid, _grpc(triton_address, MODEL_INFER, folder / "infer", Load(16, 16))),
        Point("mosec echo", mosec.pid, _http(mosec_address, echo, folder)),
        Point("LitServe JSON", litserve.pid, _http(litserve_address, predict, folder)),
    ]


def _grpc(address: str, method: str, payloads: Path, load: Load) -> Load_:
    def run(seconds: float) -> tuple[float, int, bool]:
        lasting = Load(load.connections, load.inflight, seconds)
        found = loadgen(address, method, payloads, lasting, LOAD_CPU)
        return float(found["rate"]), found["status_with_warmup"]["OK"], found["verdict"] == "INVALID"

    return run


def _http(address: str, body: HttpRequest, folder: Path) -> Load_:
    script = body.write(folder / f"wrk-{address.rpartition(':')[2]}-{len(list(folder.glob('wrk-*')))}")

    def run(seconds: float) -> tuple[float, int, bool]:
        found = wrk(address, body.path, script, seconds, LOAD_CPU)
        return found.rate, found.answers, False

    return run
