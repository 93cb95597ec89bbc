"""An edge in front of one, two and four modelled servers, and of two unequal ones: what it gets of their capacity."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from bench.load import PREDICT, Load, loadgen
from bench.row import Row
from bench.texts import request, texts
from bench.transport import LOAD_CPU, SERVER_CPU
from fastqps.bench.measure.workload import write_messages
from fastqps.process.server_process import ServerProcess

FLAGS = ("--model", "minilm", "--frontdoors", "1", "--dispatchers", "1")
SERVERS = (1, 2, 4)
STEP_ITEMS = 32
FAST_US, SLOW_US = 250, 1000  # of the device for an item, in full steps
IN_FLIGHT = 16 * STEP_ITEMS  # for each server: its steps are always full
BUSY = 0.8  # of the capacity, where times are compared
ACCEPT = {"sum": 97, "p99": 1.5}


class Run(NamedTuple):
    """Answers per second, and their p99 in ms."""

    rate: float
    p99_ms: float


@dataclass
class Point:
    """A load and its runs."""

    name: str
    run: Callable[[float], Run]  # by seconds
    runs: list[Run] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return statistics.median(run.rate for run in self.runs)

    @property
    def p99_ms(self) -> float:
        return statistics.median(run.p99_ms for run in self.runs)


def measure(folder: Path, repetitions: int, seconds: float) -> tuple[list[Row], list[dict[str, Any]]]:
    """All points in turn, ``repetitions`` times. Servers and edges share a core, which they leave mostly idle."""
    payloads = write_messages(folder / "routing", map(request, texts(2000)))
    fast, slow = (_profile(folder, name, us) for name, us in (("fast", FAST_US), ("slow", SLOW_US)))
    capacity = {"fast": 1e6 / FAST_US, "slow": 1e6 / SLOW_US}

    def closed(address: str, servers: int) -> Callable[[float], Run]:
        load = Load(16, servers * IN_FLIGHT // 16)
        return lambda seconds: _run(address, payloads, load, seconds, None)

    def steady(address: str, rate: float) -> Callable[[float], Run]:
        return lambda seconds: _run(address, payloads, Load(16, 64), seconds, BUSY * rate)

    with contextlib.ExitStack() as stack:

        def server(profile: Path) -> str:
            flags = ("--device", f"sim:{profile}", "--max-batch-items", str(STEP_ITEMS), "--lanes", "2")
            return stack.enter_context(ServerProcess(*FLAGS, *flags, cpus=[SERVER_CPU])).address

        def edge(upstreams: Sequence[str]) -> str:
            flags = ("--device", "remote", *(f"--upstream={address}" for address in upstreams))
            return stack.enter_context(ServerProcess(*FLAGS, *flags, cpus=[SERVER_CPU])).address

        servers = [server(fast) for _ in range(max(SERVERS))]
        slow_server = server(slow)
        both = edge([servers[0], slow_server])
        points = [
            Point("1 alone", closed(servers[0], 1)),
            *(Point(f"{n} servers", closed(edge(servers[:n]), n)) for n in SERVERS),
            Point("slow alone", closed(slow_server, 1)),
            Point("slow alone, steady", steady(slow_server, capacity["slow"])),
            Point("unequal", closed(both, 2)),
            Point("unequal, steady", steady(both, sum(capacity.values()))),
        ]
        for _ in range(repetitions):
            for point in points:
                point.runs.append(point.run(seconds))
    return _rows({point.name: point for point in points}), [
        {"name": point.name, "runs": [run._asdict() for run in point.runs]} for point in points
    ]


def _rows(points: dict[str, Point]) -> list[Row]:
    alone, slow = points["1 alone"], points["slow alone"]
    rows = []
    for n in SERVERS:
        found, whole = points[f"{n} servers"], n * alone.rate
        note = f"{found.rate:,.0f}/s of {whole:,.0f}/s"
        rows.append(
            Row(
                f"edge before {n} modelled servers: of their sum",
                100 * found.rate / whole,
                "%",
                ACCEPT["sum"],
                note=note,
            )
        )
    unequal, whole = points["unequal"], alone.rate + slow.rate
    note = f"{unequal.rate:,.0f}/s of {whole:,.0f}/s; one has a quarter of the other's rate"
    rows.append(Row("… before two unequal ones", 100 * unequal.rate / whole, "%", ACCEPT["sum"], note=note))
    steady, own = points["unequal, steady"], points["slow alone, steady"]
    note = f"{steady.p99_ms:.1f} ms at {BUSY:.0%} of the rate, the slow one's own {own.p99_ms:.1f} ms"
    rows.append(
        Row("… p99 over the slow one's own", steady.p99_ms / own.p99_ms, "×", ACCEPT["p99"], at_most=True, note=note)
    )
    return rows


def _run(address: str, payloads: Path, load: Load, seconds: float, rate: float | None) -> Run:
    timed = Load(load.connections, load.inflight, seconds)
    found = loadgen(address, PREDICT, payloads, timed, LOAD_CPU, rate=rate)
    return Run(float(found["rate"]), float(found["service_time_us"]["p99"]) / 1e3)


def _profile(folder: Path, name: str, item_us: float) -> Path:
    """A device for steps of STEP_ITEMS, of which a tenth is fixed."""
    path = folder / f"{name}.toml"
    fixed_us = 0.1 * item_us * STEP_ITEMS
    path.write_text(
        f'name = "{name}"\nstatus = "estimated"\nsource = "chosen, so that the device is the limit"\ntask = "embed"\n'
        f"[step]\nfixed_us = {fixed_us}\nper_token_us = 0.0\nper_item_us = {0.9 * item_us}\n[host]\nlaunch_us = 12.8\n"
    )
    return path
