"""What a server keeps of its throughput and latency beside programs that take its CPUs, caches and page cache."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
from collections.abc import Sequence
from statistics import median
from typing import Any

from fastqps.bench.flags import Common
from fastqps.bench.lists import parse_rate
from fastqps.bench.measure.context import Context
from fastqps.bench.measure.load import LoadSpec
from fastqps.bench.measure.saturate import saturating
from fastqps.bench.neighbours.beside import NEIGHBOURS, beside
from fastqps.bench.results.point import Point, median_point
from fastqps.bench.results.result import BenchError, Result
from fastqps.bench.verdict import conclude
from fastqps.errors import ConfigError
from fastqps.host import machine

ALONE = "alone"
LOAD_OF_PEAK = 0.25  # the rate of the second load: even with a third of its CPU time a server should keep it


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The neighbours, and both loads."""
    parser.add_argument(
        "--beside",
        default=",".join(NEIGHBOURS),
        metavar="NAME,…",
        help=f"neighbours, one after the other: {', '.join(NEIGHBOURS)} (default: all of them)",
    )
    parser.add_argument(
        "-c", "--in-flight", type=int, metavar="N", help="calls in flight for the peak (default: enough for full steps)"
    )
    parser.add_argument(
        "--rate",
        type=parse_rate,
        metavar="R",
        help=f"calls per second for p99 and stages (default: {LOAD_OF_PEAK} of the peak without neighbours)",
    )


def check(options: argparse.Namespace, common: Common) -> None:
    """The names and the loads."""
    _names(options)
    if options.in_flight is not None:
        common.load.closed(options.in_flight)
    if options.rate is not None:
        common.load.at_rate(options.rate)


def run(context: Context) -> Result:
    """Two points without and two beside each neighbour: the peak, and a rate that leaves room. ``neighbours`` holds
    what was kept. Each repetition measures all of them in turn."""
    names, result, options = _names(context.options), context.result, context.options
    if not context.target.local:
        raise ConfigError("neighbours run on this machine, and the server at --address on another one")
    peak = saturating(context, options.in_flight, {}, {})
    context.progress.expect(2 * context.repetitions * (1 + len(names)))
    peaks = _in_turn(context, peak, names)
    if not peaks[ALONE].rate:
        raise BenchError("nothing was answered without neighbours: there is nothing to compare with")
    steady = context.load.at_rate(options.rate or LOAD_OF_PEAK * peaks[ALONE].rate)
    steadies = _in_turn(context, steady, names)
    result.points = [point for name in (ALONE, *names) for point in (peaks[name], steadies[name])]
    result.extra["neighbours"] = [
        row_of(name, (peaks[ALONE], peaks[name]), (steadies[ALONE], steadies[name])) for name in names
    ]
    if context.pinning.note:
        context.note("without CPUs of its own the load generator loses time to the neighbours, too")
    conclude(result, result.points)
    return result


def _names(options: argparse.Namespace) -> list[str]:
    names = list(dict.fromkeys(name.strip() for name in options.beside.split(",")))
    if unknown := [name for name in names if name not in NEIGHBOURS]:
        raise ConfigError(f"--beside {unknown[0]}: no such neighbour; there are: {', '.join(NEIGHBOURS)}")
    return names


def _in_turn(context: Context, load: LoadSpec, names: Sequence[str]) -> dict[str, Point]:
    """The median point of ``load`` without neighbours and beside each of them."""
    taken: dict[str, list[Point]] = {name: [] for name in (ALONE, *names)}
    for k in range(context.repetitions):
        again = dataclasses.replace(load, seed=load.seed + 1000 * k)
        for name, points in taken.items():
            label = f"{name}, {'peak' if load.rate is None else f'{load.rate:,.0f}/s'}"
            context.server()  # started before its neighbours
            with contextlib.nullcontext() if name == ALONE else beside(name, _cpus(context)):
                points.append(context.measure({}, again, name=label, keep=False, repetitions=1))
    return {name: points[0] if len(points) == 1 else median_point(points) for name, points in taken.items()}


def _cpus(context: Context) -> tuple[int, ...]:
    """The server's CPUs: those that it was started on, or all but the generator's."""
    pins = context.pinning
    return pins.server or tuple(cpu for cpu in machine.allowed_cpus() if cpu not in pins.load)


def row_of(name: str, peaks: tuple[Point, Point], steadies: tuple[Point, Point]) -> dict[str, Any]:
    """One line of the table, from (without, beside) at both loads.

    ``kept``: the peak beside the neighbour over that without. ``stage``: whose mean grew most at the steady rate, and
    its means in µs; "" where the server does not say. ``host_cores``: CPU time that its processes got at that rate.
    """
    without, beside = steadies
    grown = stages_grown(without, beside)
    stage = max(grown, key=lambda found: grown[found][1] - grown[found][0], default="")
    alone_us, beside_us = grown.get(stage, (None, None))
    return {
        "name": name,
        "kept": peaks[1].rate / peaks[0].rate if peaks[0].rate else None,
        "rate": without.offered_rate,
        "answered": beside.rate,
        "p99_alone_us": _p99(without),
        "p99_us": _p99(beside),
        "stage": stage,
        "stage_alone_us": alone_us,
        "stage_us": beside_us,
        "host_cores": sum(cores for role, cores in (beside.server_cpu or {}).items() if role != "kernel"),
    }


def stages_grown(without: Point, beside: Point) -> dict[str, tuple[float, float]]:
    """{stage: means in µs without and beside} of the stages that both points know."""
    before, after = without.stages_us or {}, beside.stages_us or {}
    return {stage: (before[stage]["mean"] or 0.0, after[stage]["mean"] or 0.0) for stage in before if stage in after}


def _p99(point: Point) -> float | None:
    """The median of the repetitions."""
    known = [row["p99_us"] for row in point.repetitions if row["p99_us"] is not None]
    return median(known) if known else point.p99_us
