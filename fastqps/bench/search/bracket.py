"""The search for the highest rate that passes: a bracket, halved until it is narrow, and a longer run to confirm.

A probe is a measurement, so it errs. A near miss gets a second chance, because one hiccup of the machine must not halve
the answer; what passed by luck is found out by the confirmation, which then steps back. A probe with too few answers
to decide says neither yes nor no: the search never steps down on it, because a lower rate has fewer answers still.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass

from fastqps.bench.measure.context import Context
from fastqps.bench.measure.load import LoadSpec
from fastqps.bench.measure.slo import Judgement, Slo
from fastqps.bench.measure.target import Settings
from fastqps.bench.results.point import INVALID, UNSTABLE, Point

UP = 1.25
DOWN = 0.5
FIRST = 0.8  # of the guess
FLOOR = 1 / 256  # of the guess: below it nothing passes


@dataclass(frozen=True)
class Trial:
    """The result of a probe. ``near``: it failed by little, or another one may decide. ``generator_bound``: the
    generator failed, not the server. ``unknown``: it had too few answers to pass or to fail."""

    passed: bool
    near: bool = False
    generator_bound: bool = False
    unknown: bool = False


Probe = Callable[[float, bool], Trial]  # (rate, whether this is the confirmation)


@dataclass
class Bracket:
    """``low``: the highest rate that passed and has not failed since; ``high``: the lowest that failed. None: none did.

    ``confirmed``: ``low`` also passed the longer run. ``generator_bound``: the generator failed at ``high``, not the
    server. ``unknown``: the rate whose probe had too few answers, which ended the search. ``exhausted``: the probes ran
    out before the search was done.
    """

    low: float | None = None
    high: float | None = None
    confirmed: bool = False
    generator_bound: bool = False
    unknown: float | None = None
    exhausted: bool = False
    probes: int = 0

    def narrow_enough(self, precision: float) -> bool:
        """Whether both ends are known and within ``precision``, a share of the rate."""
        return self.low is not None and self.high is not None and self.high <= self.low * (1 + precision)


def find_highest(probe: Probe, guess: float, *, probes_max: int = 16, precision: float = 0.05) -> Bracket:
    """Rates within ``precision`` of the highest that passes, with at most ``probes_max`` probes, confirmation included.

    ``guess``: where it may be, within a factor of some. ``probes_max`` at least 4.
    """
    search = _Search(probe, probes_max, precision)
    search.narrow(FIRST * guess, floor=FLOOR * guess)
    search.confirm()
    return search.bracket


class _Search:
    CONFIRMATIONS = 3  # probes kept for them

    def __init__(self, probe: Probe, probes_max: int, precision: float) -> None:
        self.bracket = Bracket()
        self._probe, self._probes_max, self._precision = probe, probes_max, precision

    def narrow(self, rate: float, floor: float) -> None:
        """Ends early at a rate that cannot be decided."""
        bracket, down = self.bracket, DOWN
        while rate >= floor and not bracket.narrow_enough(self._precision):
            if self._left() <= self.CONFIRMATIONS:
                bracket.exhausted = True
                return
            trial = self._decide(rate, confirm=False)
            if trial.unknown:
                bracket.unknown = rate
                return
            if trial.passed:
                bracket.low = rate
            else:
                bracket.high, bracket.generator_bound = rate, trial.generator_bound
            if bracket.low is None:
                rate *= down
                down *= down  # an SLO that nothing keeps should not take an hour to find out
            elif bracket.high is None:
                rate *= UP
            else:
                rate = math.sqrt(bracket.low * bracket.high)

    def confirm(self) -> None:
        """Steps back by more each time until the longer run passes too."""
        bracket, back = self.bracket, self._precision
        while bracket.low is not None and self._left() > 0:
            trial = self._decide(bracket.low, confirm=True)
            if trial.passed:
                bracket.confirmed = True
                return
            if trial.unknown:
                bracket.unknown = bracket.low
                return
            bracket.high, bracket.generator_bound = bracket.low, trial.generator_bound
            bracket.low *= max(DOWN, 1 - back)
            back *= 2
        bracket.exhausted |= bracket.low is not None

    def _decide(self, rate: float, confirm: bool) -> Trial:
        """The trial of a rate, or the second one where another may say more. A confirmation is long enough to fail by
        little."""
        trial = self._try(rate, confirm)
        again = not trial.passed and trial.near and (trial.unknown or not confirm)
        if again and self._left() > (0 if confirm else self.CONFIRMATIONS):
            trial = self._try(rate, confirm)
        return trial

    def _try(self, rate: float, confirm: bool) -> Trial:
        self.bracket.probes += 1
        return self._probe(rate, confirm)

    def _left(self) -> int:
        return self._probes_max - self.bracket.probes


# ---- roughly, in few runs: for comparing settings with each other
#
# find-max decides how much load a deployment can take: it takes its time and confirms its result.


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
        peak_point = context.measure(settings, peak, name=name, keep=False)
        rate = SHARE_OF_PEAK * peak_point.rate
        if not rate:
            return peak_point, 0.0 if peak_point.measured else None
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
        point = context.measure(settings, load.at_rate(rate), name=name, keep=False)
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
