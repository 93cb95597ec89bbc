"""The time of a request, stage by stage, by the server's own stamps. The rest is the wire."""

from __future__ import annotations

import argparse
from typing import Any

from fastqps.bench.flags import Common
from fastqps.bench.lists import parse_counts
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
    """A point for each number of calls in flight; ``breakdown`` holds the table of µs and shares."""
    levels = _levels(context.options)
    result = context.result
    table: list[dict[str, Any]] = []
    result.extra["breakdown"] = table
    context.progress.expect(len(levels) * context.repetitions)
    for level in levels:
        point = context.measure({}, context.load.closed(level))
        if not point.stages_us:
            raise BenchError("the server's stages are not known: its admin port is needed (--admin)")
        table.append(row_of(point, level))
        if level == 1:
            _judge(context, table[-1])
    conclude(result, result.points)
    return result


def _levels(options: argparse.Namespace) -> list[int]:
    return parse_counts("concurrency", options.concurrency, most=1 << 16)


def row_of(point: Point, level: int) -> dict[str, Any]:
    """One line of the table. ``stages``: {stage: {us, share}}, ``wire`` the last; all are means, which add up.

    ``host``: all stages but ``device``, the wait in the queue among them. ``covered``: of the end-to-end time, by the
    stages; more than 1 where they count something twice.
    """
    means = {stage: summary["mean"] or 0.0 for stage, summary in (point.stages_us or {}).items()}
    covered = sum(means.values())
    end_to_end = point.service_time_us.get("mean") or covered
    means["wire"] = max(0.0, end_to_end - covered)
    whole = max(end_to_end, covered) or 1.0  # shares are of no more than everything
    device = means.get("device", 0.0)
    return {
        "in_flight": level,
        "end_to_end_us": end_to_end,
        "covered": covered / (end_to_end or 1.0),
        "stages": {stage: {"us": us, "share": us / whole} for stage, us in means.items()},
        "device_share": device / whole,
        "host_share": (covered - device) / whole,
        "wire_share": means["wire"] / whole,
    }


def _judge(context: Context, row: dict[str, Any]) -> None:
    us, covered, whole = row["stages"]["wire"]["us"], row["covered"], row["end_to_end_us"]
    context.note(
        f"one call at a time: the server's stages are {100 * covered:.1f} % of the {whole:,.0f} µs that the generator "
        f"saw; {us:,.0f} µs are the wire: both kernels, and the generator's own wake-up"
    )
    if covered < 1 - HIDDEN_MAX:
        context.note("more than a tenth is outside the server: its work is too short to be seen beside the wire")
    elif covered > 1 + HIDDEN_MAX:
        context.note("the stages are more than a tenth longer than what the generator saw: other calls are among them")
