"""Goodput beyond capacity, the cost of refusals, and the time to recover."""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from fastqps.bench.flags import Common
from fastqps.bench.measure.closed_loop import find_peak
from fastqps.bench.measure.context import Context
from fastqps.bench.measure.slo import format_us
from fastqps.bench.results.capacity import read_rate
from fastqps.bench.results.point import INVALID
from fastqps.bench.results.result import Result
from fastqps.bench.verdict import conclude

MULTIPLES = (0.5, 1.0, 2.0, 5.0)
CALM = 0.5  # of the capacity, after the storm
USUAL = 2.0  # times the calm p99 is usual again
ALIGNED_S = 0.25  # the timeline's seconds may begin so much before the calm does


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds a flag for the capacity that the multiples refer to."""
    parser.add_argument(
        "--capacity",
        metavar="FILE|R",
        help="capacity.json of find-max, or calls/s (default: the peak in a closed loop)",
    )


def check(options: argparse.Namespace, common: Common) -> None:
    """The capacity."""
    if options.capacity:
        common.load.at_rate(read_rate(options.capacity))


def run(context: Context) -> Result:
    """One point for each multiple, and one that comes back from the highest."""
    result = context.result
    if context.options.capacity:
        capacity = read_rate(context.options.capacity) / context.payloads.call.items
    else:
        capacity = find_peak(context)
    result.extra["capacity"] = capacity
    context.progress.expect(len(MULTIPLES) + 1)
    for multiple in MULTIPLES:
        point = context.measure({}, context.load.at_rate(multiple * capacity), name=f"{multiple:g} × capacity")
        if point.verdict == INVALID:
            context.note(f"{point.name}: the generator was the limit, higher multiples are left out")
            break
    _recover(context, capacity)
    _conclude(result)
    return result


def _recover(context: Context, capacity: float) -> None:
    """Half of the time at the highest multiple that the generator could do, half of it calm."""
    result = context.result
    reached = [m for m, p in zip(MULTIPLES, result.points, strict=False) if p.verdict != INVALID]
    if not reached or reached[-1] <= 1:
        return
    high, low = reached[-1] * capacity, CALM * capacity
    load = context.load.at_rate((high + low) / 2)
    load = dataclasses.replace(load, arrivals=f"step:{high:.6g},{low:.6g}", duration_s=2 * load.duration_s)
    point = context.measure({}, load, name=f"back from {reached[-1]:g} ×")
    if point.verdict == INVALID or not point.timeline or enough(low) <= 0:
        why = "the generator was the limit" if point.verdict == INVALID else "there are too few answers a second"
        context.note(f"how soon it recovers is not known: {why}")
        return
    if context.slo:
        usual_us: float | None = context.slo.latency_us
    else:
        calm_us = next((p.p99_us for p in result.points if p.p99_us and (p.offered_rate or high) <= 1.01 * low), None)
        usual_us = None if calm_us is None else USUAL * calm_us
    result.extra["recovery_s"] = recovery_s(point.timeline, load.duration_s / 2, low, usual_us)


def recovery_s(
    timeline: Sequence[dict[str, Any]], after_s: float, rate: float, p99_us_max: float | None
) -> float | None:
    """Seconds from the end of the overload until rate and latency of answers stay as they should be. 0: at once. None:
    not during the run.
    """
    calm = [row for row in timeline if _begin_s(row) >= after_s - ALIGNED_S]
    usual = [
        row["ok"] >= enough(rate) * row.get("length_s", 1.0)
        and (p99_us_max is None or (row.get("p99_us") or 0.0) <= p99_us_max)
        for row in calm
    ]
    if not usual or not usual[-1]:
        return None
    first = len(usual) - next((k for k, good in enumerate(reversed(usual)) if not good), len(usual))
    return round(max(0.0, _begin_s(calm[first]) - after_s), 3)


def enough(rate: float) -> float:
    """Answers that a second has at least while nothing is lost: random arrivals may be fewer than the rate. 0 or less:
    a second without any may be one, too."""
    return rate - max(0.2 * rate, 3 * math.sqrt(rate))


def _begin_s(row: dict[str, Any]) -> float:
    return float(row["t_s"] - row.get("length_s", 1.0))


def _conclude(result: Result) -> None:
    loads = [p for p in result.points if p.name.endswith("capacity")]
    sound = [point for point in loads if point.verdict != INVALID]
    conclude(result, sound if len(sound) > MULTIPLES.index(1.0) + 1 else loads)  # else nothing beyond it is known
    if not sound:
        return
    heaviest = sound[-1]
    refusals = heaviest.refusal_time_us or {}
    if median := refusals.get("p50"):
        result.notes.append(f"at {heaviest.name} a refusal takes {format_us(median)} (median)")
    if "recovery_s" in result.extra:
        back = result.extra["recovery_s"]
        result.notes.append(
            "it did not recover while measured" if back is None else f"back to usual within {back + 1:g} s"
        )
