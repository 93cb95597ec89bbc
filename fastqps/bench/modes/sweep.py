"""Latency against load: rates from almost nothing to beyond the peak."""

from __future__ import annotations

import argparse

from fastqps.bench.flags import Common, parse_rate
from fastqps.bench.measure.closed_loop import find_peak
from fastqps.bench.measure.context import Context
from fastqps.bench.measure.slo import Slo, duration_flag
from fastqps.bench.results.point import BEYOND_MIN, INVALID, UNSTABLE, Point
from fastqps.bench.results.result import Outcome, Result
from fastqps.bench.verdict import conclude
from fastqps.errors import ConfigError

FIRST, LAST = 0.1, 1.3  # of the peak
POINTS = 10
HOPELESS = 0.7  # of the offered rate answered: a higher one shows nothing new
RATES_MAX = 100
P99_ANSWERS = round(BEYOND_MIN / 0.01)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds flags for the rates."""
    parser.add_argument("--rates", metavar="R,R,…", default="", help="these instead of ten up to 130 %% of the peak")


def check(options: argparse.Namespace, common: Common) -> None:
    """The rates."""
    for rate in _read_rates(options.rates):
        common.load.at_rate(rate)


def run(context: Context) -> Result:
    """``best``: the knee. With an SLO that is the highest rate within it, else where rate over p99 is highest."""
    options, result = context.options, context.result
    rates = _read_rates(options.rates)
    if not rates:
        peak = find_peak(context)
        rates = [peak * share for share in shares()]
    context.progress.expect(len(rates))
    hopeless = 0
    for k, rate in enumerate(rates):
        point = context.measure({}, context.load.at_rate(rate))
        hopeless = hopeless + 1 if is_hopeless(point) else 0
        if hopeless == 2 and k + 1 < len(rates):
            context.note(f"higher rates were left out: at {point.name} the server answers {point.rate:,.0f}/s")
            break
    result.best = knee(result.points, context.slo)
    if result.best is None:
        conclude(result, result.points[:1], _find_nothing(context))
    else:
        conclude(result, result.points[result.best : result.best + 2])  # it is the knee if the next one is none
    return result


def _find_nothing(context: Context) -> Outcome:
    """The verdict and the reason where there is no knee: it rests on the least load."""
    result, slo = context.result, context.slo
    least = result.points[0]
    if slo is None:
        context.note(f"there is no knee: no point that is VALID has the {P99_ANSWERS:,} answers that its p99 takes")
    elif least.verdict == UNSTABLE or (least.verdict != INVALID and slo.judge(least).broken):
        return "SLO_NOT_MET"  # and higher rates are no easier
    else:
        reasons = least.reasons if least.verdict == INVALID else slo.judge(least).unknown
        context.note(f"{least.name}, the least load, does not decide whether {slo} can be kept: {'; '.join(reasons)}")
        if least.verdict != INVALID and least.rate:
            context.note(f"measure each point for {duration_flag(slo.seconds(least.rate))}")
    return "INCONCLUSIVE"


def shares() -> list[float]:
    """Shares of the peak, closer together where latency begins to rise."""
    steps = [k / (POINTS - 1) for k in range(POINTS)]
    return [FIRST + (LAST - FIRST) * (1.6 * x - 0.6 * x * x) for x in steps]


def is_hopeless(point: Point) -> bool:
    """It is far beyond capacity, or the generator is. (A generator that was late for once may be in time at more.)"""
    answered = point.rate / point.offered_rate if point.offered_rate else 1.0
    return answered < HOPELESS or point.verdict == UNSTABLE


def knee(points: list[Point], slo: Slo | None) -> int | None:
    """Index of the point to mark; None where none qualifies."""
    valid = [i for i, p in enumerate(points) if p.verdict not in (INVALID, UNSTABLE)]
    if slo:
        kept = [i for i in valid if slo.judge(points[i]).kept]
        return max(kept, key=lambda i: points[i].rate, default=None)
    known = [i for i in valid if points[i].p99_us]
    return max(known, key=lambda i: points[i].rate / (points[i].p99_us or 1.0), default=None)


def _read_rates(text: str) -> list[float]:
    """Empty: none were named."""
    try:
        rates = [parse_rate(part) for part in text.split(",")] if text else []
    except argparse.ArgumentTypeError:
        raise ConfigError(f"--rates {text}: write numbers of calls per second with commas between") from None
    if len(rates) > RATES_MAX or rates != sorted(set(rates)):
        raise ConfigError(f"--rates {text}: at most {RATES_MAX} different rates, the lowest first")
    return rates
