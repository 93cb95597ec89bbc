"""The optimizations one by one: what each adds to one synchronous dispatcher."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

from fastqps.bench.flags import Common
from fastqps.bench.measure.context import Context
from fastqps.bench.measure.saturate import saturating
from fastqps.bench.results.point import Point
from fastqps.bench.results.result import BenchError, Result, ServerGone
from fastqps.bench.verdict import conclude, is_open, ratio_interval
from fastqps.errors import ConfigError

NOTHING: dict[str, Any] = {
    "dispatchers": 1,
    "lanes": 1,
    "async-steps": "off",
    "kernels": "torch",
    "quantization": "none",
}


@dataclass(frozen=True)
class Optimization:
    """One setting, changed on top of those before it."""

    name: str
    key: str
    value: Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds flags for the numbers of dispatchers and lanes, and for the load."""
    parser.add_argument(
        "--dispatchers", type=int, default=2, metavar="N", help="of the row `+ N dispatchers` (default: 2)"
    )
    parser.add_argument("--lanes", type=int, default=2, metavar="N", help="of the row `+ N lanes` (default: 2)")
    parser.add_argument(
        "-c", "--in-flight", type=int, metavar="N", help="calls in flight (default: enough for full batches)"
    )


def check(options: argparse.Namespace, common: Common) -> None:
    """Checks that there is something to vary."""
    if options.address:
        raise ConfigError("ablate varies settings, so it starts a server itself; leave out --address")
    optimizations_of(options.dispatchers, options.lanes)
    if options.in_flight is not None:
        common.load.closed(options.in_flight)


def run(context: Context) -> Result:
    """A point for each optimization that this device and model have; the others' rows say why they are missing."""
    result, options = context.result, context.options
    for key in NOTHING:
        if key in context.target.base:
            raise ConfigError(f"--{key}: ablate varies it itself")
    optimizations = optimizations_of(options.dispatchers, options.lanes)
    widest = NOTHING | {one.key: one.value for one in optimizations if not context.target.refusal({one.key: one.value})}
    load = saturating(context, options.in_flight, widest, NOTHING)
    rows: list[dict[str, Any]] = []
    result.extra["optimizations"] = rows
    context.progress.expect((1 + len(optimizations)) * context.repetitions)
    settings = dict(NOTHING)
    first = context.measure(settings, load, name="1 dispatcher, synchronous")
    rows.append(_row(first, first, first))
    before = first
    for one in optimizations:
        wanted = settings | {one.key: one.value}
        missing = context.target.refusal(wanted)
        if not missing:
            try:
                point = context.measure(wanted, load, name=one.name)
            except ServerGone:
                raise
            except BenchError as error:
                missing = str(error)
        if missing:
            described = load.describe(context.payloads.call)
            result.points.append(Point(one.name, wanted, described, reasons=[missing], missing=missing))
            rows.append({"name": one.name, "missing": missing})
            context.note(f"{one.name}: {missing}")
            continue
        settings = wanted
        rows.append(_row(point, before, first))
        before = point
    kept = [i for i, point in enumerate(result.points) if point.rate]
    result.best = max(kept, key=lambda i: result.points[i].rate, default=None)
    best = result.best_point or first
    is_unclear = best is not first and is_open("rate", ratio_interval(first, best))
    conclude(result, (point for point in result.points if not point.missing), "INCONCLUSIVE" if is_unclear else "VALID")
    return result


def optimizations_of(dispatchers: int, lanes: int) -> tuple[Optimization, ...]:
    """The optimizations in the order in which they are added."""
    if not (1 < dispatchers <= 64 and 1 < lanes <= 16):
        raise ConfigError("--dispatchers and --lanes: more than the 1 that the rows before have")
    return (
        Optimization("+ asynchronous steps", "async-steps", "on"),
        Optimization(f"+ {dispatchers} dispatchers", "dispatchers", dispatchers),
        Optimization(f"+ {lanes} lanes", "lanes", lanes),
        Optimization("+ own kernels", "kernels", "own"),
        Optimization("+ FP8", "quantization", "fp8"),
    )


def _row(point: Point, before: Point, first: Point) -> dict[str, Any]:
    return {
        "name": point.name,
        "rate": point.rate,
        "p99_us": point.p99_us,
        "duty_cycle": point.duty_cycle,
        "over_before": point.rate / before.rate if before.rate else None,
        "over_first": point.rate / first.rate if first.rate else None,
    }
