"""One load, and what happens: rate, latency, errors, and where the server's time goes."""

from __future__ import annotations

import argparse

from fastqps.bench.flags import Common
from fastqps.bench.lists import parse_rate
from fastqps.bench.measure.context import Context
from fastqps.bench.measure.load import LoadSpec
from fastqps.bench.results.point import INVALID, Point
from fastqps.bench.results.result import Outcome, Result
from fastqps.bench.slo import Slo, duration_flag
from fastqps.bench.verdict import conclude
from fastqps.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The load: a rate, or calls in flight."""
    load = parser.add_mutually_exclusive_group(required=True)
    load.add_argument(
        "--rate", type=parse_rate, metavar="R", help="calls per second, sent on time whatever the server does"
    )
    load.add_argument(
        "-c",
        "--in-flight",
        type=int,
        metavar="N",
        help="so many calls at a time instead: for the peak, not for latency",
    )


def check(options: argparse.Namespace, common: Common) -> None:
    """Also that an SLO is not asked of a closed loop."""
    load_of(options, common.load)
    if options.in_flight is not None and common.slo:
        raise ConfigError("--slo needs --rate: a closed loop waits for the server, so its latencies flatter it")


def run(context: Context) -> Result:
    """One point."""
    context.progress.expect(1)
    point = context.measure({}, load_of(context.options, context.load))
    judge(context, point)
    return context.result


def load_of(options: argparse.Namespace, load: LoadSpec) -> LoadSpec:
    """What the flags say."""
    return load.at_rate(options.rate) if options.in_flight is None else load.closed(options.in_flight)


def judge(context: Context, point: Point) -> None:
    """The verdict of a run of one point."""
    result, slo = context.result, context.slo
    result.best = len(result.points) - 1
    found: Outcome = "VALID"
    if slo and point.measured and point.verdict != INVALID:
        judged = slo.judge(point)
        if judged.broken:
            found = "SLO_NOT_MET"
            result.notes += judged.broken
        elif judged.unknown:
            found = "INCONCLUSIVE"
            result.notes += [*judged.unknown, _what_decides(slo, point)]
    conclude(result, [point], found)


def _what_decides(slo: Slo, point: Point) -> str:
    """What a point needs to decide its limits. A trace has a fixed length, so it gets no advice on the duration."""
    needed = f"{slo} takes {slo.calls_min:,} calls"
    if not point.rate or point.load.get("trace"):
        return needed
    return f"{needed}: measure for {duration_flag(slo.seconds(point.rate))}"
