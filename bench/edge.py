"""An edge in front of a server, next to the server alone: what the hop costs each of them, and what it takes and adds.

Nothing is computed (the null device), so the host path is what is measured. The edge and its server each have a core
where their CPU time is compared; where the rate of the edge's core is asked for, the server shares the other one with
the load, which is its limit then as often as the edge is.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import edge_routing
from bench.load import PREDICT, Load, h2load, loadgen
from bench.row import Row
from bench.texts import request, texts, write_body
from bench.transport import LOAD_CPU, SERVER_CPU
from fastqps.bench.measure.processes import cpu_by_role
from fastqps.bench.measure.workload import write_messages
from fastqps.process.server_process import ServerProcess
from fastqps.telemetry.scrape import Difference, scrape

FLAGS = ("--model", "minilm", "--frontdoors", "1", "--dispatchers", "1")
DEEP, SINGLE = Load(16, 64), Load(1, 1)
LANES = 2
FAIR = Load(16, 64 * LANES // 16)  # 64 in flight on each connection to the server
PACE = 20_000  # calls per second, fewer than either can do: a server that is not busy takes fewer with each wake-up
ACCEPT = {"server": 0.6, "server goal": 0.3, "edge": 1.3, "rate": 0.6, "rate alone": 200_000, "latency_us": 150.0}


@dataclass
class Point:
    """A load on one address, with the servers whose CPU time it costs."""

    name: str
    run: Callable[[], tuple[float, float]]  # answers per second, and p50 in µs
    servers: dict[str, ServerProcess]
    rates: list[float] = field(default_factory=list)
    p50_us: list[float] = field(default_factory=list)
    cpu_us: dict[str, list[float]] = field(default_factory=dict)  # of a request, by server

    def measure(self) -> None:
        """One run."""
        counts = {name: scrape(server.admin) for name, server in self.servers.items()}
        before = {name: _spent_s(server) for name, server in self.servers.items()}
        rate, p50 = self.run()
        spent = {name: _spent_s(server) - before[name] for name, server in self.servers.items()}
        self.rates.append(rate)
        self.p50_us.append(p50)
        for name, server in self.servers.items():
            codes = Difference(counts[name], scrape(server.admin)).by("fastqps_items_total", "code")
            self.cpu_us.setdefault(name, []).append(1e6 * spent[name] / sum(codes.values()))

    def cost_us(self, name: str) -> float:
        return statistics.median(self.cpu_us[name])

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "rates": self.rates, "p50_us": self.p50_us, "cpu_us": self.cpu_us}


def measure(folder: Path, repetitions: int, seconds: float) -> tuple[list[Row], list[dict[str, Any]]]:
    """All points in turn, ``repetitions`` times."""
    whole = write_body(folder / "whole", request(texts(1)[0]))
    small = write_body(folder / "small", request(texts(1)[0], dimensions=4))
    one = write_messages(folder / "one", map(request, texts(1)))
    late: list[bool] = []  # of each paced run

    def deep(address: str, load: Load = DEEP, body: Path = whole) -> Callable[[], tuple[float, float]]:
        timed = Load(load.connections, load.inflight, seconds)
        return lambda: (h2load(address, PREDICT, body, timed, LOAD_CPU), 0.0)

    def paced(address: str) -> Callable[[], tuple[float, float]]:
        def run() -> tuple[float, float]:
            found = loadgen(address, PREDICT, one, Load(16, 256, seconds), LOAD_CPU, rate=PACE)
            late.append(found["verdict"] != "VALID")
            return float(found["rate"]), 0.0

        return run

    def single(address: str) -> Callable[[], tuple[float, float]]:
        def run() -> tuple[float, float]:
            found = loadgen(address, PREDICT, one, Load(1, 1, seconds), LOAD_CPU)
            return float(found["rate"]), float(found["service_time_us"]["p50"])

        return run

    null = (*FLAGS, "--device", "null")
    with ServerProcess(*null, cpus=[SERVER_CPU]) as server, ServerProcess(*null, cpus=[LOAD_CPU]) as beside:
        remote = (*FLAGS, "--device", "remote", "--lanes", str(LANES), "--upstream")
        with (
            ServerProcess(*remote, server.address, cpus=[LOAD_CPU]) as edge_beside,
            ServerProcess(*remote, beside.address, cpus=[SERVER_CPU]) as edge,
        ):
            points = [
                Point("server alone", deep(server.address), {"server": server}),
                Point("server alone, fair", deep(server.address, FAIR), {"server": server}),
                Point("server behind an edge, fair", deep(edge_beside.address, FAIR), {"server": server}),
                Point("server behind an edge, deep", deep(edge_beside.address), {"server": server}),
                Point("server alone, small", deep(server.address, body=small), {"server": server}),
                Point("edge, small", deep(edge.address, body=small), {"edge": edge}),
                Point("server alone, paced", paced(server.address), {"server": server}),
                Point("server behind an edge, paced", paced(edge_beside.address), {"server": server}),
                Point("edge, paced", paced(edge.address), {"edge": edge}),
                Point("one in flight, server alone", single(server.address), {}),
                Point("one in flight, by an edge", single(edge.address), {}),
            ]
            for _ in range(repetitions):
                for point in points:
                    point.measure()
    routing_rows, routing_points = edge_routing.measure(folder, repetitions, seconds)
    rows = [*_rows({point.name: point for point in points}, sum(late)), *routing_rows]
    return rows, [*(point.to_json() for point in points), *routing_points]


def _rows(points: dict[str, Point], late: int) -> list[Row]:
    rows = []
    for load, accept, goal in (("fair", ACCEPT["server"], ACCEPT["server goal"]), ("deep", None, None)):
        behind = points[f"server behind an edge, {load}"].cost_us("server")
        direct = points["server alone" if load == "deep" else "server alone, fair"].cost_us("server")
        in_flight = 16 * (DEEP if load == "deep" else FAIR).inflight
        note = f"{behind:.2f} µs, alone {direct:.2f} µs"
        name = f"server behind an edge, {in_flight} in flight: CPU per request"
        rows.append(Row(name, behind / direct, "×", accept, goal, at_most=True, note=note))
    alone, edge = points["server alone, small"], points["edge, small"]
    edge_us, own_us = edge.cost_us("edge"), alone.cost_us("server")
    note = f"{edge_us:.2f} µs, a server {own_us:.2f} µs; answers of 4 dimensions, so that the edge is the limit"
    rows.append(Row("edge: CPU per request", edge_us / own_us, "×", ACCEPT["edge"], at_most=True, note=note))
    own_us = points["server alone, paced"].cost_us("server")
    for name, who, accept in (("server behind an edge", "server", ACCEPT["server"]), ("edge", "edge", ACCEPT["edge"])):
        us = points[f"{name}, paced"].cost_us(who)
        note = f"{us:.2f} µs, a server alone {own_us:.2f} µs; open loop"
        note += f"; the generator was late in {late} runs" if late else ""
        name += f": CPU per request at {PACE:,}/s"
        rows.append(Row(name, us / own_us, "×", None if late else accept, at_most=True, note=note))
    note = f"{edge.rate:,.0f}/s, a server {alone.rate:,.0f}/s; the server and the load share the other core"
    rows.append(Row("edge: rate of one core", edge.rate / alone.rate, "×", ACCEPT["rate"], note=note))
    by_edge, direct = (
        statistics.median(points[f"one in flight, {how}"].p50_us) for how in ("by an edge", "server alone")
    )
    note = f"{by_edge:.0f} µs, alone {direct:.0f} µs"
    added = by_edge - direct
    rows.append(Row("edge: added p50, one in flight", added, "µs", ACCEPT["latency_us"], at_most=True, note=note))
    return rows


def _spent_s(server: ServerProcess) -> float:
    spent = cpu_by_role(server.pid)
    return sum(seconds for role, seconds in spent.items() if role != "kernel")
