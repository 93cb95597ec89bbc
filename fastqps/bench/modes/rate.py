"""One load, and what happens: rate, latency, errors, and where the server's time goes."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from fastqps.bench.flags import Common, parse_rate
from fastqps.bench.measure.context import Context
from fastqps.bench.measure.load import LoadSpec
from fastqps.bench.measure.slo import Slo, duration_flag
from fastqps.bench.results.point import INVALID, Point
from fastqps.bench.results.result import Outcome, Result
from fastqps.bench.verdict import conclude
from fastqps.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The load: a rate, calls in flight, or a trace."""
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
    load.add_argument(
        "--trace",
        metavar="FILE",
        default="",
        help="recorded arrivals, all of them: CSV with t_us and, if wanted, payload",
    )
    parser.add_argument(
        "--speedup", type=float, default=1.0, metavar="X", help="of the trace: so many times as fast (default: 1)"
    )


def check(options: argparse.Namespace, common: Common) -> None:
    """Checks that there is a trace, and that no SLO is asked of a closed loop."""
    if options.trace and not Path(options.trace).is_file():
        raise ConfigError(f"there is no trace {options.trace}")
    if options.speedup != 1 and not options.trace:
        raise ConfigError("--speedup needs --trace")
    load_of(options, common.load)
    if options.in_flight is not None and common.slo:
        raise ConfigError("--slo needs an open loop (--rate): a closed one waits for the server, which flatters it")


def run(context: Context) -> Result:
    """One point."""
    context.progress.expect(1)
    judge(context, context.measure({}, load_of(context.options, context.load)))
    return context.result


def load_of(options: argparse.Namespace, load: LoadSpec) -> LoadSpec:
    """The load that the flags ask for. A trace is measured to its end, whatever --duration says."""
    if options.trace:
        return dataclasses.replace(
            load, in_flight=None, trace=options.trace, speedup=options.speedup, warmup_s=0.0, duration_s=0.0
        )
    return load.at_rate(options.rate) if options.in_flight is None else load.closed(options.in_flight)


def judge(context: Context, point: Point) -> None:
    """The verdict of a run of one point."""
    result, slo = context.result, context.slo
    result.best = len(result.points) - 1
    outcome: Outcome = "VALID"
    if slo and point.measured and point.verdict != INVALID:
        judged = slo.judge(point)
        if judged.broken:
            outcome = "SLO_NOT_MET"
            result.notes += judged.broken
        elif judged.unknown:
            outcome = "INCONCLUSIVE"
            result.notes += [*judged.unknown, _what_decides(slo, point)]
    conclude(result, [point], outcome)


def _what_decides(slo: Slo, point: Point) -> str:
    """Advises how to decide the limits of a point. A trace has a fixed length, so it gets no advice on the duration."""
    needed = f"{slo} takes {slo.calls_min:,} calls"
    if not point.rate or point.load.get("trace"):
        return needed
    return f"{needed}: measure for {duration_flag(slo.seconds(point.rate))}"
