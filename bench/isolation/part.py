"""Each claim in turn: classes, tenants and siblings on a modelled device, then classes on this CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.isolation.classes import classes
from bench.isolation.on_cpu import on_cpu
from bench.isolation.siblings import siblings
from bench.isolation.subject import computing, modelled
from bench.isolation.tenants import tenants
from bench.row import Row


def measure(folder: Path, repetitions: int, seconds: float) -> tuple[list[Row], list[dict[str, Any]]]:
    """One server of each device, on one core; the load on the other."""
    rows: list[Row] = []
    points: list[dict[str, Any]] = []
    with modelled(folder) as server:
        for claim in (classes, tenants, siblings):
            found = claim(server, folder, repetitions, seconds)
            rows += found[0]
            points += [{**point, "name": f"{claim.__name__}, {point['name']}"} for point in found[1]]
    with computing() as server:
        found = on_cpu(server, folder, repetitions, seconds)
    return rows + found[0], points + [{**point, "name": f"on_cpu, {point['name']}"} for point in found[1]]
