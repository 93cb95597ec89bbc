"""The host path without a model: the whole server on one core, the load on another one, a grpc.aio echo as baseline."""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.environment import two_cpus
from bench.load import PREDICT, Load, h2load, loadgen
from bench.row import Row
from bench.texts import request, texts, write_body
from fastqps.bench.measure.child_process import child_process
from fastqps.bench.measure.processes import cpu_by_role
from fastqps.bench.measure.workload import write_messages
from fastqps.bench.results.result import BenchError
from fastqps.process.server_process import ServerProcess
from fastqps.telemetry.scrape import Difference, scrape

SERVER_CPU, LOAD_CPU = two_cpus()
DISTINCT = 20_000
DEEP, SINGLE = Load(16, 64), Load(16, 1)
# Stages whose stamps belong to a whole batch: an item's share is the batch's time over its items.
BATCH_STAGES = ("gather", "launch", "device", "scatter")


@dataclass
class Point:
    """One kind of load. ``run`` returns answers per second, and whether the generator is known to be the limit."""

    name: str
    server: ServerProcess | None
    run: Callable[[], tuple[float, bool]]
    rates: list[float] = field(default_factory=list)
    generator_bound: int = 0  # of the runs
    cpu_us: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    stage_cost_us: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    batch_items: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)

    def cost(self) -> dict[str, float]:
        """Median CPU time per request in µs: in all, by process; then by where it goes: the kernel, the stages that
        compute, and ``http2``, which is all the rest."""
        spent = {role: statistics.median(values) for role, values in self.cpu_us.items()}
        kernel = spent.pop("kernel")
        by_stage = {stage: statistics.median(values) for stage, values in self.stage_cost_us.items()}
        total = sum(spent.values())
        return {"total": total, **spent, "kernel": kernel, **by_stage, "http2": total - kernel - sum(by_stage.values())}

    def to_json(self) -> dict[str, Any]:
        """For the result file."""
        return {
            "name": self.name,
            "rate": self.rate,
            "rates": self.rates,
            "generator_bound": self.generator_bound,
            "batch_items": statistics.median(self.batch_items or [0.0]),
            "cost_us": self.cost() if self.cpu_us else {},
        }


def measure(folder: Path, repetitions: int, seconds: float) -> tuple[list[Row], list[dict[str, Any]]]:
    """All points, ``repetitions`` times in turn with the baseline. ``folder`` takes the payload files."""
    flags = ("--model", "minilm", "--device", "null", "--frontdoors", "1", "--dispatchers", "1")
    with (
        ServerProcess(*flags, cpus=[SERVER_CPU]) as server,
        ServerProcess(*flags, *_certificate(folder), cpus=[SERVER_CPU]) as secure,
        grpc_echo() as (peer, pid),
    ):
        points = _points(folder, server, secure, seconds)
        baseline = Point("grpc.aio echo", None, lambda: _h2load(peer, folder / "whole", replace(DEEP, seconds=seconds)))
        for _ in range(repetitions):
            for point in points:
                _measure_once(point)
            _measure_peer_once(pid, baseline, seconds)
    return _rows({p.name: p for p in points}, baseline), [p.to_json() for p in (*points, baseline)]


def _points(folder: Path, server: ServerProcess, secure: ServerProcess, seconds: float) -> list[Point]:
    one, many = texts(1), texts(DISTINCT)
    whole = write_body(folder / "whole", request(one[0]))
    small = write_body(folder / "small", request(one[0], dimensions=4))
    repeated = write_messages(folder / "repeated", map(request, one))
    distinct = write_messages(folder / "distinct", map(request, many))
    deep, single = replace(DEEP, seconds=seconds), replace(SINGLE, seconds=seconds)
    address, under_tls = server.address, secure.address
    return [
        Point("deep", server, lambda: _h2load(address, whole, deep)),
        Point("small answers", server, lambda: _h2load(address, small, deep)),
        Point("one in flight", server, lambda: _h2load(address, whole, single)),
        Point("TLS", secure, lambda: _h2load(under_tls, whole, deep, "https")),
        Point("TLS, one in flight", secure, lambda: _h2load(under_tls, whole, single, "https")),
        Point("repeated text", server, lambda: _loadgen(address, repeated, deep)),
        Point("distinct texts", server, lambda: _loadgen(address, distinct, deep)),
    ]


def _certificate(folder: Path) -> tuple[str, str]:
    """The flags of a server with one that it has signed itself. h2load believes it."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-subj", "/CN=localhost", "-keyout", str(key), "-out", str(certificate)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"no certificate: {done.stderr}")
    return f"--tls-cert={certificate}", f"--tls-key={key}"


def _h2load(address: str, body: Path, load: Load, scheme: str = "http") -> tuple[float, bool]:
    return h2load(address, PREDICT, body, load, LOAD_CPU, scheme=scheme), False


def _loadgen(address: str, payloads: Path, load: Load) -> tuple[float, bool]:
    found = loadgen(address, PREDICT, payloads, load, LOAD_CPU)
    return float(found["rate"]), found["verdict"] == "INVALID"


def _measure_once(point: Point) -> None:
    server = point.server
    assert server
    before, cpu_before = scrape(server.admin), cpu_by_role(server.pid)
    rate, bound = point.run()
    point.rates.append(rate)
    point.generator_bound += bound
    cpu, seen = cpu_by_role(server.pid), Difference(before, scrape(server.admin))
    codes = {code: count for code, count in seen.by("fastqps_items_total", "code").items() if count}
    if set(codes) != {"OK"}:
        raise BenchError(f"{point.name}: the server counted {codes}")
    point.batch_items.append(mean(seen, "fastqps_batch_items"))
    for role, spent_s in cpu.items():
        point.cpu_us[role].append(1e6 * (spent_s - cpu_before[role]) / codes["OK"])
    for stage, cost in stage_cost_us(seen).items():
        point.stage_cost_us[stage].append(cost)


def _measure_peer_once(pid: int, baseline: Point, seconds: float) -> None:
    before = cpu_by_role(pid)
    baseline.rates.append(baseline.run()[0])
    # Its requests are not counted by itself: h2load's rate holds for the warm-up too, nearly.
    requests = baseline.rates[-1] * (seconds + DEEP.warmup_s)
    for role, spent_s in cpu_by_role(pid).items():
        baseline.cpu_us["kernel" if role == "kernel" else "echo"].append(1e6 * (spent_s - before[role]) / requests)


def mean(seen: Difference, histogram: str, **labels: str) -> float:
    """Of what was observed; 0 where nothing was."""
    return seen.histogram(histogram, **labels).mean or 0.0


def stage_cost_us(seen: Difference) -> dict[str, float]:
    """CPU time of an item in the stages that compute, in µs: waiting (queue, drain) is no cost."""

    def spent_us(stage: str) -> float:
        return 1e6 * mean(seen, "fastqps_stage_duration_seconds", stage=stage)

    items = max(1.0, mean(seen, "fastqps_batch_items"))
    cost = {stage: spent_us(stage) for stage in ("parse", "tokenize")}
    return cost | {stage: spent_us(stage) / items for stage in BATCH_STAGES}


@contextlib.contextmanager
def grpc_echo() -> Iterator[tuple[str, int]]:
    """The address and the pid of a grpc.aio echo on the server's CPU."""
    command = ["taskset", "-c", str(SERVER_CPU), sys.executable, "-m", "bench.grpcio_echo"]
    with child_process(command, end_s=10, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        if not address:
            raise BenchError("the grpc.aio echo server did not start")
        yield address, process.pid


def _rows(points: dict[str, Point], baseline: Point) -> list[Row]:
    deep, small, single = points["deep"], points["small answers"], points["one in flight"]
    cost, echo_us = deep.cost(), baseline.cost()["total"]
    parts = ", ".join(f"{name} {value:.2f}" for name, value in cost.items() if name != "total")
    compared = points["distinct texts"], points["repeated text"]
    distinct, bound = compared[0].rate / compared[1].rate, sum(point.generator_bound for point in compared)
    note = "of one repeated text, loadgen" + (f", which was the limit in {bound} runs" if bound else "")
    secure, secure_single = points["TLS"], points["TLS, one in flight"]
    tls_us = secure.cost()["total"] - cost["total"]
    return [
        Row("Predict, 384 floats, 16 × 64 in flight", deep.rate, "/s", 300e3, 450e3, note="one core, h2load"),
        Row("… with 4 floats", small.rate, "/s", 350e3, 600e3, note="one core, h2load"),
        Row("… with 16 × 1 in flight", single.rate, "/s", 80e3, 110e3, note="one core, h2load"),
        Row("… under TLS", secure.rate, "/s", note=f"one core, h2load; TLS costs {tls_us:.2f} µs of CPU a request"),
        Row("… under TLS, 16 × 1", secure_single.rate, "/s", note="one core, h2load"),
        Row(f"… from {DISTINCT} distinct texts", 100 * distinct, "%", 80, note=note),
        Row("… over a grpc.aio echo", deep.rate / baseline.rate, "×", 40, note=f"echo: {baseline.rate:,.0f}/s"),
        Row("… by CPU time", echo_us / cost["total"], "×", note=f"echo: {echo_us:.0f} µs"),
        Row("host CPU per Predict", cost["total"], "µs", note=parts),
        Row("host CPU per Predict, 16 × 1", single.cost()["total"], "µs"),
    ]
