"""One load, and what happens: rate, latency, errors, and where the server's time goes."""

from __future__ import annotations

import argparse

from fastqps.bench.context import Context
from fastqps.bench.flags import Common
from fastqps.bench.load import LoadSpec
from fastqps.bench.point import INVALID, Point
from fastqps.bench.result import Result
from fastqps.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The load: a rate, or calls in flight."""
    load = parser.add_mutually_exclusive_group(required=True)
    load.add_argument("--rate", type=float, metavar="R", help="calls per second, sent on time whatever the server does")
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
    result = context.result
    result.best, result.verdict = len(result.points) - 1, point.verdict
    if context.slo and point.verdict != INVALID and (violations := context.slo.violations(point)):
        result.verdict = "SLO_NOT_MET"
        result.notes += violations
