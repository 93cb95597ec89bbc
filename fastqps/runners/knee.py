"""The knee of a device: the smallest step that reaches nearly the rate of the best one.

Other programs only ever add time to a step, and no average is free of what they add. So the shortest time of a size
counts, and two halves of the rounds, each with its own shortest times, show how far that can be trusted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

SHARE = 0.95  # of the best rate
# A shorter step saves nobody time, and what the host does for each step would cost rate.
STEP_S_MIN = 0.0005
CROWD = 1024  # items of a step, beyond which its time is bounded, too
ROUNDS_MIN, ROUNDS_MAX = 4, 40
MEASURE_S = 0.5  # then ROUNDS_MIN are enough, if the halves agree
GIVE_UP_S = 5.0  # of a slow machine, or one on which much else runs: a start may not take much longer
ERROR_MAX = 0.05  # of a ratio of two rates; beyond it nothing is decided
_AGREED_MAX = 0.15  # also where the halves of the measurement find about the same size
# Sizes from a step of this length on are measured only while doubling gains more than GAIN_MIN: there costs that do not
# grow with the step are known, and each measurement takes as long as all before it.
_LONG_S = 0.02
_GAIN_MIN = 1.02
_ERROR_MIN = 0.003
_MARGIN_MAX = 0.025  # above SHARE: half of what SHARE leaves
_HOPEFUL = 0.8  # of the best rate: no noise that is allowed lifts a slower size to SHARE
_COMPARED_MIN = 3  # sizes that tell the error
_ALL = slice(None)
_HALVES = (slice(0, None, 2), slice(1, None, 2))  # of the rounds: a disturbance that lasts is in both

TimeSteps = Callable[[int], tuple[float, int]]


@dataclass(frozen=True)
class Knee:
    """``items``: the chosen size. ``rates``: (size, items per second), the highest ones, the smallest size first."""

    items: int
    rates: tuple[tuple[int, float], ...]
    decided: bool  # else ``items`` is only the likeliest size
    seconds: float  # that the measurement took
    bounded: bool = False  # the last one of ``rates`` is of steps that take too long

    @property
    def best(self) -> float:
        """The highest rate of a size."""
        return max(rate for _, rate in self.rates)

    @property
    def rate(self) -> float:
        """The rate at the chosen size, or at the largest one that was measured below it."""
        return [rate for size, rate in self.rates if size <= self.items][-1]


def sizes_up_to(largest: int) -> list[int]:
    """1, 2, 4 … and ``largest``."""
    return [*(1 << i for i in range((largest - 1).bit_length())), largest]


def items_within(step_s: float, rates: Sequence[tuple[int, float]]) -> int:
    """The most items whose step takes at most ``step_s``, by the rates of some sizes, the smallest size first. 0: not
    even one does."""
    fitting = [(size, rate) for size, rate in rates if size / rate <= step_s]
    if not fitting:
        return 0
    size, rate = fitting[-1]
    too_large = [other for other, _ in rates if other > size]
    # A step of twice the size takes at most twice the time.
    return min(int(step_s * rate), *(other - 1 for other in too_large[:1]), 1 << 30)


def find_knee(
    time_steps: TimeSteps, items_max: int, crowd_step_s: float = math.inf, clock: Callable[[], float] = time.monotonic
) -> Knee:
    """``time_steps`` runs steps of a size: (seconds, steps). All sizes take turns, so that a disturbance meets all.
    ``clock`` tells how long the measurement takes. No size of more than ``CROWD`` items is taken whose step takes
    longer than ``crowd_step_s``.

    Of several sizes that may reach ``SHARE`` within the error of the measurement, the largest is taken. Where the error
    is too large for that, it is the larger one of those that the two halves of the rounds find.
    """
    search = _Search(time_steps, sizes_up_to(items_max), crowd_step_s, clock)
    while not search.over():
        search.run_round()
    return search.knee()


class _Search:
    """The measured seconds per step of each size, by round."""

    def __init__(
        self, time_steps: TimeSteps, sizes: list[int], crowd_step_s: float, clock: Callable[[], float]
    ) -> None:
        self._time_steps = time_steps
        self._sizes = sizes
        self._crowd_step_s = crowd_step_s
        self._taken: dict[int, list[float]] = {}
        self._clock, self._began_s = clock, clock()

    def run_round(self) -> None:
        """Measures each size once, and further ones while they may be faster."""
        for size in self._sizes:
            beyond = self._taken and size not in self._taken and (self._peaked() or self._bounded())
            if beyond or self._spent_s() > GIVE_UP_S:
                return
            seconds, steps = self._time_steps(size)
            self._taken.setdefault(size, []).append(seconds / steps)

    def over(self) -> bool:
        """Whether more rounds would say nothing new, or take too long."""
        rounds = self._rounds()
        if self._spent_s() > GIVE_UP_S:
            return True
        if rounds < ROUNDS_MIN:
            return False
        error = self._error()
        settled = self._spent_s() > MEASURE_S or self._choice(error) == self._choice(0.0)
        return rounds >= ROUNDS_MAX or (error <= ERROR_MAX and settled)

    def knee(self) -> Knee:
        """The smallest size that reaches SHARE for certain, or the likeliest one."""
        error = self._error()
        items = max(self._choice(min(error, _MARGIN_MAX)), *self._choices())
        rates = tuple((size, self._rate(size)) for size in self._taken)
        return Knee(items, rates, self._decided(), self._spent_s(), self._bounded())

    def _decided(self) -> bool:
        """Whether another measurement would find about the same: the error is small, or in spite of it the halves
        find the same size or neighbours, of which the larger one is safe."""
        error, choices = self._error(), self._choices()
        return error <= ERROR_MAX or (error <= _AGREED_MAX and max(choices) <= 2 * min(choices))

    def _choices(self) -> set[int]:
        """The sizes that each half of the rounds, and all of them, would choose."""
        return {self._choice(0.0, rounds) for rounds in (_ALL, *_HALVES)}

    def _spent_s(self) -> float:
        return self._clock() - self._began_s

    def _rounds(self) -> int:
        """Sizes that joined late took part in fewer."""
        return len(self._taken.get(self._sizes[0], ()))

    def _step_s(self, size: int, rounds: slice = _ALL) -> float:
        return min(self._taken[size][rounds] or self._taken[size])

    def _rate(self, size: int, rounds: slice = _ALL) -> float:
        return size / self._step_s(size, rounds)

    def _choice(self, error: float, rounds: slice = _ALL) -> int:
        wanted = SHARE * self._best_rate(rounds) * (1 + error)
        for size in self._allowed():
            long = self._step_s(size, rounds) >= STEP_S_MIN
            if long and (self._rate(size, rounds) >= wanted or size == self._top):
                return size
        return self._sizes[-1]

    @property
    def _top(self) -> int:
        return self._allowed()[-1]

    def _allowed(self) -> list[int]:
        """The measured sizes whose steps are short enough, the smallest first."""
        return [size for size in self._taken if size <= CROWD or self._step_s(size) <= self._crowd_step_s]

    def _bounded(self) -> bool:
        """Whether the largest measured size is too large, and so are those beyond."""
        return len(self._allowed()) < len(self._taken)

    def _best_rate(self, rounds: slice) -> float:
        """The best rate of all sizes. Sizes that were not measured gain at most what the last measured doubling has."""
        best = max(self._rate(size, rounds) for size in self._allowed())
        if self._top == self._sizes[-1] or self._bounded():
            return best
        return max(best, self._rate(self._top, rounds) * self._last_gain())

    def _last_gain(self) -> float:
        """The largest gain that the last doubling can have: a size that was not measured must not count as slow."""
        if len(self._allowed()) < 2:
            return math.inf
        *_, before, last = self._allowed()
        return max(self._rate(last, rounds) / self._rate(before, rounds) for rounds in (_ALL, *_HALVES))

    def _peaked(self) -> bool:
        """Whether larger steps than those measured gain nothing worth their time."""
        margin = min(self._error(), ERROR_MAX) if self._rounds() > 1 else 0.0
        return self._step_s(self._top) >= _LONG_S and self._last_gain() * (1 + margin) < _GAIN_MIN

    def _error(self) -> float:
        """The error of a ratio of two rates, at 95 %, from how far the halves of the rounds are apart, size by size.

        Sizes that are far too slow do not count. A disturbance that slows one half for all sizes changes no ratio. A
        size that joined last counts with the second round that it was measured in.
        """
        if sum(len(taken) > 1 for taken in self._taken.values()) < max(1, len(self._taken) - 1):
            return math.inf
        fastest = sorted((size for size in self._taken if len(self._taken[size]) > 1), key=self._rate, reverse=True)
        hopeful = [size for size in fastest if self._rate(size) >= _HOPEFUL * self._rate(fastest[0])]
        known = max(hopeful, fastest[:_COMPARED_MIN], key=len)
        one, other = _HALVES
        apart = [math.log(self._step_s(size, one) / self._step_s(size, other)) for size in known]
        usual = median(apart)
        # Both halves together err by half as much as they are apart: 1.96 sigmas of a ratio are 1.7 mean deviations.
        return max(_ERROR_MIN, 1.7 * fmean(abs(a - usual) for a in apart))
