"""The knee of a device: the smallest step that reaches nearly the rate of the best one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

SHARE = 0.95  # of the best rate
# A shorter step saves nobody time, and what the host does for each step would cost rate.
STEP_S_MIN = 0.0005
ROUNDS_MIN, ROUNDS_MAX = 5, 21
MEASURE_S = 0.5  # then ROUNDS_MIN are enough
GIVE_UP_S = 5.0  # of a slow machine, or one on which much else runs: a start may not take much longer
ERROR_MAX = 0.05  # of a ratio of two rates; beyond it the measurement says nothing
# Sizes from a step of this length on are measured only while doubling gains more than GAIN_MIN: there costs that do not
# grow with the step are known, and each measurement takes as long as all before it.
_LONG_S = 0.02
_GAIN_MIN = 1.02
_ERROR_MIN = 0.003
_ROUNDS_KNOWN = 3  # fewer say nothing of how far they are apart
_SIGMA_OF_MAD, _SIGMA_OF_MEDIAN = 1.48, 1.25

TimeSteps = Callable[[int], tuple[float, int]]


@dataclass(frozen=True)
class Knee:
    """``items``: the chosen size. ``rates``: (size, items per second), medians, the smallest size first."""

    items: int
    rates: tuple[tuple[int, float], ...]
    decided: bool  # else the rates were too uncertain, and ``items`` is the largest size
    seconds: float  # that the measurement took

    @property
    def best(self) -> float:
        """The highest rate of a size."""
        return max(rate for _, rate in self.rates)

    @property
    def rate(self) -> float:
        """The rate at the chosen size, or at the largest one that was measured below it."""
        return [rate for size, rate in self.rates if size <= self.items][-1]


def sizes_up_to(most: int) -> list[int]:
    """1, 2, 4 … and ``most``."""
    return [*(1 << i for i in range((most - 1).bit_length())), most]


def find_knee(time_steps: TimeSteps, most: int, clock: Callable[[], float] = time.monotonic) -> Knee:
    """``time_steps`` runs steps of a size: (seconds, steps). All sizes take turns, so that a disturbance meets all.
    ``clock`` tells how long the measurement takes.

    Of several sizes that may reach ``SHARE`` within the error of the measurement, the largest is taken.
    """
    search = _Search(time_steps, sizes_up_to(most), clock)
    while not search.over():
        search.run_round()
    return search.knee()


class _Search:
    """The measured seconds per step of each size, by round."""

    def __init__(self, time_steps: TimeSteps, sizes: list[int], clock: Callable[[], float]) -> None:
        self._time_steps = time_steps
        self._sizes = sizes
        self._taken: dict[int, list[float]] = {}
        self._clock, self._began_s = clock, clock()

    def run_round(self) -> None:
        """Measures each size once, and further ones while they may be faster."""
        for size in self._sizes:
            if (size not in self._taken and self._peaked()) or self._spent_s() > GIVE_UP_S:
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
        if rounds >= ROUNDS_MAX or self._spent_s() > MEASURE_S:
            return True
        return self._error() <= ERROR_MAX and self._choice(self._error()) == self._choice(0.0)

    def knee(self) -> Knee:
        """The smallest size that reaches SHARE for certain."""
        rates = tuple((size, size / self._step_s(size)) for size in self._taken)
        error = self._error()
        if error > ERROR_MAX:
            return Knee(self._sizes[-1], rates, False, self._spent_s())
        return Knee(self._choice(error), rates, True, self._spent_s())

    def _spent_s(self) -> float:
        return self._clock() - self._began_s

    def _rounds(self) -> int:
        """In which every size took part: one may have joined late."""
        return min(map(len, self._taken.values()), default=0)

    def _step_s(self, size: int) -> float:
        return median(self._taken[size])

    def _rate(self, size: int) -> float:
        return size / self._step_s(size)

    def _choice(self, error: float) -> int:
        wanted = SHARE * self._best_rate() * (1 + error)
        for size in self._taken:
            long = self._step_s(size) >= STEP_S_MIN
            if long and (self._rate(size) >= wanted or size == self._top):
                return size
        return self._sizes[-1]

    @property
    def _top(self) -> int:
        return max(self._taken)

    def _best_rate(self) -> float:
        """Of all sizes, also of those that were not measured: each doubling gains at most what the last one has."""
        best = max(map(self._rate, self._taken))
        return best if self._top == self._sizes[-1] else max(best, self._rate(self._top) * self._last_gain())

    def _last_gain(self) -> float:
        *_, before, last = self._taken
        return self._rate(last) / self._rate(before)

    def _peaked(self) -> bool:
        """Whether larger steps than those measured gain nothing worth their time."""
        return len(self._taken) > 1 and self._step_s(self._top) >= _LONG_S and self._last_gain() < _GAIN_MIN

    def _error(self) -> float:
        """Of a ratio of two medians, at 95 %, by the deviations of all sizes together."""
        if self._rounds() < _ROUNDS_KNOWN:
            return math.inf
        apart: list[float] = []
        for size, taken in self._taken.items():
            apart += sorted(abs(s / self._step_s(size) - 1) for s in taken)[1:]  # the median's own is 0
        n = self._rounds()
        sigma = _SIGMA_OF_MAD * median(apart)
        return max(_ERROR_MIN, 2 * _SIGMA_OF_MEDIAN * sigma * math.sqrt(2 / n))
