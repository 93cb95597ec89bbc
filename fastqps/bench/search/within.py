"""The highest rate at which one setting keeps the SLO, roughly, in few runs: for comparing settings with each other.

What a deployment can be given is ``find-max``'s to say, which takes its time and confirms what it has found.
"""

from __future__ import annotations

import dataclasses
import math

from fastqps.bench.measure.context import Context
from fastqps.bench.measure.load import LoadSpec
from fastqps.bench.measure.target import Settings
from fastqps.bench.results.point import INVALID, UNSTABLE, Point
from fastqps.bench.slo import Judgement, Slo

STEP = 1.3  # from one rate to the next while only one side of the limit is known
CLOSE = 1.06  # the limit is known well enough
TRIES = 6
SHARE_OF_PEAK = 0.8  # where to begin when nothing is known


def highest_within(
    context: Context, settings: Settings, peak: LoadSpec, slo: Slo, name: str, hint: float | None
) -> tuple[Point, float | None]:
    """(the best point within the SLO, the rate). Rate 0 and the last point: none was within it. Rate None and that
    point: it had too few answers to tell, or the generator was the limit.

    ``hint``: a rate that is likely to be near, of a similar setting; without it the peak of the closed loop ``peak`` is
    measured first. Arrivals are those of the context's load. A point above which the generator was the limit is
    INVALID: the server may do more.
    """
    rate = hint or 0.0
    if not rate:
        most = context.measure(settings, peak, name=name, keep=False, repetitions=1)
        rate = SHARE_OF_PEAK * most.rate
        if not rate:
            return most, 0.0 if most.measured else None
    good: Point | None = None
    bad: Point | None = None
    low, high = 0.0, math.inf
    for _ in range(TRIES):
        if low and high / low < CLOSE:
            break
        point, judged = _decide(context, settings, slo, name, rate)
        # A generator that was late makes the times longer, never shorter: what keeps the SLO all the same keeps it.
        if point.verdict == UNSTABLE or judged.broken:
            bad, high = point, rate
        elif judged.unknown:
            point.reasons = [*point.reasons, *judged.unknown]
            return point, None
        else:
            good, low = point, rate
        rate = math.sqrt(low * high) if low and high < math.inf else low * STEP if low else high / STEP
    if good is None:
        assert bad is not None  # one of them in each try
        return bad, None if bad.verdict == INVALID else 0.0
    if bad is not None and bad.verdict == INVALID and good.verdict != INVALID:
        good = dataclasses.replace(good, verdict=INVALID, reasons=[f"above it: {reason}" for reason in bad.reasons])
    return good, _between(slo, good, bad, low, high)


def _decide(context: Context, settings: Settings, slo: Slo, name: str, rate: float) -> tuple[Point, Judgement]:
    """A point at this rate, measured again for longer where fewer calls were answered than were due."""
    usual_s, answered = context.load.duration_s, rate
    for _ in range(2):
        load = dataclasses.replace(context.load, duration_s=max(usual_s, slo.seconds(answered)))
        point = context.measure(settings, load.at_rate(rate), name=name, keep=False, repetitions=1)
        judged = slo.judge(point)
        if not judged.inconclusive or point.verdict == UNSTABLE or not 0 < point.rate < rate:
            break
        answered = point.rate
    return point, judged


def _between(slo: Slo, good: Point, bad: Point | None, low: float, high: float) -> float:
    """The rate at which the latency crosses its limit, interpolated linearly between the logarithms of two rates."""
    if bad is None or high / low > STEP:
        return low
    shares = []
    for name, limit in slo.limits_us.items():
        under, over = good.response_time_us.get(name), bad.response_time_us.get(name)
        if under and over and under < limit < over:
            shares.append(math.log(limit / under) / math.log(over / under))
    return float(low * (high / low) ** min(shares, default=0.0))
