"""Each claim in turn: classes, tenants and siblings on a modelled device, then classes on this CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.isolation.classes import classes
from bench.isolation.on_cpu import on_cpu
from bench.isolation.siblings import siblings
from bench.isolation.subject import computing, modelled
from bench.isolation.tenants import tenants
from bench.row import Row
from bench.runner import Bench
from fastqps.process.server_process import ServerProcess

Claim = Callable[[ServerProcess, Path, int, float], tuple[list[Row], list[dict[str, Any]]]]


def measure(bench: Bench) -> None:
    """One server of each device, on one core; the load on the other."""
    with modelled(bench.folder) as server:
        for claim in (classes, tenants, siblings):
            _add(bench, claim, server)
    with computing() as server:
        _add(bench, on_cpu, server)


def _add(bench: Bench, claim: Claim, server: ServerProcess) -> None:
    rows, points = claim(server, bench.folder, bench.repetitions, bench.seconds)
    bench.rows += rows
    bench.points += [{**point, "name": f"{claim.__name__}, {point['name']}"} for point in points]
