"""The highest rate at which one setting keeps the SLO, roughly, in few runs: for comparing settings with each other.

What a deployment can be given is ``find-max``'s to say, which takes its time and confirms what it has found.
"""

from __future__ import annotations

import dataclasses
import math

from fastqps.bench.context import Context
from fastqps.bench.load import LoadSpec
from fastqps.bench.point import Point
from fastqps.bench.slo import Slo
from fastqps.bench.target import Settings

STEP = 1.3  # from one rate to the next while only one side of the limit is known
CLOSE = 1.06  # the limit is known well enough
TRIES = 6
SHARE_OF_PEAK = 0.8  # where to begin when nothing is known


def highest_within(
    context: Context, settings: Settings, peak: LoadSpec, slo: Slo, name: str, hint: float | None
) -> tuple[Point, float]:
    """(the best point within the SLO, the rate). Rate 0 and the last point: none was within it.

    ``hint``: a rate that is likely to be near, of a similar setting; without it the peak of the closed loop ``peak`` is
    measured first. Arrivals are those of the context's load.
    """
    rate = hint or SHARE_OF_PEAK * context.measure(settings, peak, name=name, keep=False, repetitions=1).rate
    good: Point | None = None
    bad: Point | None = None
    low, high = 0.0, math.inf
    for _ in range(TRIES):
        if rate <= 0 or (low and high / low < CLOSE):
            break
        longer = dataclasses.replace(
            context.load, duration_s=max(context.load.duration_s, 1.2 * slo.answers_min / rate)
        )
        point = context.measure(settings, longer.at_rate(rate), name=name, keep=False, repetitions=1)
        # A generator that was late makes the times longer, never shorter: what keeps the SLO all the same keeps it.
        if point.verdict != "UNSTABLE" and not slo.violations(point):
            good, low = point, rate
        else:
            bad, high = point, rate
        rate = math.sqrt(low * high) if low and high < math.inf else low * STEP if low else high / STEP
    if good is None:
        return bad or Point(name, dict(settings), reasons=["nothing answered"]), 0.0
    return good, _between(slo, good, bad, low, high)


def _between(slo: Slo, good: Point, bad: Point | None, low: float, high: float) -> float:
    """Where the latency crosses its limit, between the two rates on a straight line through the logarithms."""
    if bad is None or high / low > STEP:
        return low
    shares = []
    for name, limit in slo.limits_us.items():
        under, over = good.response_time_us.get(name), bad.response_time_us.get(name)
        if under and over and under < limit < over:
            shares.append(math.log(limit / under) / math.log(over / under))
    return float(low * (high / low) ** min(shares, default=0.0))
