"""Records what each signal of a server says at each load, for ``fastqps bench autoscale``."""

from __future__ import annotations

import argparse
import json
from statistics import fmean
from typing import Any

from fastqps.autoscale.recording import Level, Recording, check_levels
from fastqps.bench.flags import Common
from fastqps.bench.measure.context import Context
from fastqps.bench.measure.gauges import Gauges
from fastqps.bench.measure.load import LoadSpec
from fastqps.bench.results.atomic_file import replace_file
from fastqps.bench.results.point import INVALID, Point
from fastqps.bench.results.result import BenchError, Result
from fastqps.errors import ConfigError
from fastqps.telemetry.capacity import read_capacity
from fastqps.telemetry.metrics.saturation import OFFERED

RECORDING = "recording.json"
SHARES = (0.05, 0.2, 0.35, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.05, 1.1, 1.2, 1.4, 2.0)  # of the capacity
SETTLED_S = 10.0  # gauges are means over so long
DURATION_S_MIN = SETTLED_S + 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds a flag for the capacity that the loads are shares of."""
    parser.add_argument(
        "--capacity", metavar="FILE", required=True, help="capacity.json of find-max: loads are shares of its rate"
    )


def check(options: argparse.Namespace, common: Common) -> None:
    """Checks that the run is long enough for the gauges, and that there is an objective."""
    common.load.at_rate(read_capacity(options.capacity).rate)
    if common.slo is None:
        raise ConfigError("signals needs to know what is good enough: --slo p99=20ms")
    if common.load.duration_s < DURATION_S_MIN:
        raise ConfigError(
            f"--duration {common.load.duration_s:g}s: at least {DURATION_S_MIN:g}s, because the server's own figures "
            f"are means over {SETTLED_S:g} s"
        )


def run(context: Context) -> Result:
    """A point for each share of the capacity, and recording.json. The server gets the capacity file, too."""
    options, result, items = context.options, context.result, context.payloads.call.items
    capacity = read_capacity(options.capacity).rate
    settings = {"capacity": options.capacity} if context.target.own else {}
    server = context.server(settings)
    if not server.admin:
        raise BenchError("signals are read at the admin port: name it with --admin")
    cpus = len(context.pinning.server) or result.environment.get("cores") or 1
    context.progress.expect(len(SHARES))
    levels = []
    for share in SHARES:
        with Gauges(server.admin) as gauges:
            load = context.load.at_rate(share * capacity / items)
            point = context.measure(settings, load, name=f"{share:g} × capacity")
        levels.append(_level(point, gauges, load, items, cpus))
    late = [point.name for point in result.points if point.verdict == INVALID]
    if late:
        context.note(f"the generator was late by itself at {', '.join(late)}: latencies there are its own, too")
    if any(p.verdict == INVALID for p, share in zip(result.points, SHARES, strict=True) if share <= 1):
        result.verdict = "INVALID"  # up to the capacity, latencies decide what a pod can be given
    _write(context, capacity, cpus, levels)
    return result


def _level(point: Point, gauges: Gauges, load: LoadSpec, items: int, cpus: int) -> Level:
    figures = (point.duty_cycle, point.waiting, point.in_flight)
    duty, waiting, in_flight = (0.0 if figure is None else figure for figure in figures)
    settled = gauges.last(load.duration_s - SETTLED_S)
    if None in figures or point.server_cpu is None or not point.saturation_terms or not settled:
        raise BenchError(f"{point.name}: the server's metrics could not be read")

    def mean(name: str) -> float:
        found = [value for page in settled if (value := page.find(name)) is not None]
        if not found:
            raise BenchError(f"{point.name}: the server shows no {name}")
        return fmean(found)

    evidence = [value for cause, value in point.saturation_terms.items() if cause != OFFERED]
    cores = sum(used for role, used in point.server_cpu.items() if role != "kernel")
    offered = items * (point.offered_rate or 0.0)
    return Level(
        offered=offered,
        answered=max(items * point.rate, 1e-3),
        good=min(1.0, (point.goodput or 0.0) * items / offered),
        # Too few answers: the slowest of them; none at all: no answer came in all of that time.
        p99_us=point.p99_us or point.response_time_us.get("max") or 1e6 * (load.deadline_s or load.duration_s),
        signals={
            "saturation": max(point.saturation_terms.values()),
            "evidence": max(evidence),
            "cpu": cores / cpus,
            "duty": duty,
            "waiting": waiting,
            "in_flight": in_flight,
            "queue_wait_s": mean("fastqps_queue_wait_p95_seconds"),
            "rate": items * point.rate,
        },
    )


def _write(context: Context, capacity: float, cpus: int, levels: list[Level]) -> None:
    result, slo = context.result, context.slo
    assert slo is not None  # check
    try:
        check_levels(levels, capacity)
    except ValueError as error:
        raise BenchError(f"this cannot be made a recording of: {error}") from None
    recording = Recording(
        model=str(result.target.get("model", "")),
        device=str(result.target.get("device", "")),
        capacity=capacity,
        cpus=float(cpus),
        slo_us=slo.latency_us,
        levels=tuple(levels),
        measured=result.started,
        commit=result.commit,
        command=result.command,
    )
    found: dict[str, Any] = recording.as_json()
    result.extra["recording"] = found
    path = context.folder / RECORDING
    try:
        replace_file(path, json.dumps(found, indent=1) + "\n")
    except OSError as error:
        raise BenchError(f"cannot write {path}: {error.strerror}") from None
    result.best = next(k for k, share in enumerate(SHARES) if share == 1.0)
