"""The time of a request, stage by stage, by the server's own stamps. The rest is the wire."""

from __future__ import annotations

import argparse

from fastqps.bench.flags import Common, parse_counts
from fastqps.bench.measure.context import Context
from fastqps.bench.results.point import Point
from fastqps.bench.results.result import BenchError, Result
from fastqps.bench.verdict import conclude

LEVELS = "1,2,4,8,16,32,64,128,256,512"
HIDDEN_MAX = 0.1  # by so much of a lonely request's time may the stages differ from what the generator saw


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The concurrencies."""
    parser.add_argument(
        "--concurrency", default=LEVELS, metavar="N,…", help=f"calls in flight, one point for each (default: {LEVELS})"
    )


def check(options: argparse.Namespace, common: Common) -> None:
    """The concurrencies."""
    _levels(options)


def run(context: Context) -> Result:
    """A point for each number of calls in flight; their ``stages_us`` and the ``service_time_us`` are the answer."""
    levels = _levels(context.options)
    context.progress.expect(len(levels))

    for level in levels:
        point = context.measure({}, context.load.closed(level))
        if not point.stages_us:
            raise BenchError("the server's stages are not known: its admin port is needed (--admin)")
        if level == 1:
            _judge(context, point)
    conclude(context.result, context.result.points)
    return context.result


def _levels(options: argparse.Namespace) -> list[int]:
    return parse_counts("concurrency", options.concurrency, largest=1 << 16)


def covered(point: Point) -> float:
    """The part of the end-to-end time that is in stages, by means; more than 1 where they count something twice."""
    in_stages = sum(summary["mean"] or 0.0 for summary in (point.stages_us or {}).values())
    return in_stages / (point.service_time_us.get("mean") or in_stages or 1.0)


def _judge(context: Context, point: Point) -> None:
    part, whole_us = covered(point), point.service_time_us.get("mean") or 0.0
    context.note(
        f"one call at a time: the server's stages are {100 * part:.1f} % of the {whole_us:,.0f} µs that the generator "
        f"saw; {max(0.0, 1 - part) * whole_us:,.0f} µs are the wire: both kernels, and the generator's own wake-up"
    )
    if part < 1 - HIDDEN_MAX:
        context.note("more than a tenth is outside the server: its work is too short to be seen beside the wire")
    elif part > 1 + HIDDEN_MAX:
        context.note("the stages are more than a tenth longer than what the generator saw: other calls are among them")
