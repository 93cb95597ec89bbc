"""One load, and what happens: rate, latency, errors, and where the server's time goes."""

from __future__ import annotations

import argparse

from fastqps.bench.context import Context
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


def run(context: Context) -> Result:
    """One point."""
    options, result = context.options, context.result
    if options.in_flight is not None:
        if context.slo:
            raise ConfigError("--slo needs --rate: a closed loop waits for the server, so its latencies flatter it")
        load = context.load.closed(options.in_flight)
    else:
        load = context.load.at_rate(options.rate)
    context.progress.expect(1)
    point = context.measure({}, load)
    result.best, result.verdict = 0, point.verdict
    if context.slo and point.verdict != "INVALID" and (violations := context.slo.violations(point)):
        result.verdict = "SLO_NOT_MET"
        result.notes += violations
    return result
