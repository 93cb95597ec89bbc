"""What is asked of the protocols, from the figures of all points."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from bench.protocols.agreement import CONCURRENCY, RATE
from bench.protocols.ratio import ratio
from bench.protocols.requests import BASE64, FLOATS, OIP, TEI
from bench.row import Row

Points = Mapping[str, dict[str, Any]]
_APART = 5.0  # percent
# Name, accepted and hoped-for share of Predict.
_SHARES = (
    ("ModelInfer", 0.7, 0.9),
    ("Predict, 64 × 1", None, None),
    (BASE64, 0.25, 0.35),
    (FLOATS, 0.10, 0.18),
    (OIP, None, None),
    (TEI, None, None),
)
# Ours, theirs, how many times as much.
_PEERS = (("ModelInfer", "Triton ModelInfer", 10), (BASE64, "mosec echo", 3), (FLOATS, "LitServe JSON", 20))


def rows(points: Points) -> list[Row]:
    """By rate, and by CPU time of the server, which other programs disturb less."""
    found = []
    for name, accept, goal in _SHARES:
        found += _pair(points, name, "Predict", "", accept, goal)
    for ours, theirs, accept in _PEERS:
        found += _pair(points, ours, theirs, "×", accept, None)
    return [*found, _agreement(points)]


def _pair(points: Points, name: str, other: str, unit: str, accept: float | None, goal: float | None) -> list[Row]:
    ours, theirs = points[name], points[other]
    rates, costs = ratio(ours["rates"], theirs["rates"]), ratio(theirs["cpu_us"], ours["cpu_us"])
    title = f"{name} over {other}"
    by_rate = f"{ours['rate']:,.0f}/s and {theirs['rate']:,.0f}/s; {rates}; {_busy(ours)}"
    by_cost = f"{_cost(ours):.3g} and {_cost(theirs):.3g} µs; {costs}"
    return [
        Row(title, rates.value, unit, accept, goal, note=by_rate, interval=rates.interval),
        Row("… by CPU time", costs.value, unit, note=by_cost, interval=costs.interval),
    ]


def _busy(point: dict[str, Any]) -> str:
    bound = f", loadgen was the limit in {point['generator_bound']} runs" if point["generator_bound"] else ""
    return f"core {100 * point['core_busy']:.0f} % busy{bound}"


def _cost(point: dict[str, Any]) -> float:
    return float(statistics.median(point["cpu_us"]))


def _agreement(points: Points) -> Row:
    theirs, ours = points["perf_analyzer"]["rates"], points["loadgen"]["rates"]
    both = ratio(theirs, ours)
    apart = both.apart()
    note = f"{statistics.median(theirs):,.0f}/s and {statistics.median(ours):,.0f}/s of {RATE:,}/s; ratio {both}"
    percent = None if apart.interval is None else (100 * apart.interval[0], 100 * apart.interval[1])
    name = f"perf_analyzer apart from loadgen, ModelInfer, {CONCURRENCY} in flight"
    return Row(name, 100 * apart.value, "%", _APART, at_most=True, note=note, interval=percent)
