"""The search for the highest rate that passes: a bracket, halved until it is narrow, and a longer run to confirm.

A probe is a measurement, so it errs. A near miss gets a second chance, because one hiccup of the machine must not halve
the answer; what passed by luck is found out by the confirmation, which then steps back. A probe with too few answers
to decide says neither yes nor no: the search never steps down on it, because a lower rate has fewer answers still.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

UP = 1.25
DOWN = 0.5
FIRST = 0.8  # of the guess
FLOOR = 1 / 256  # of the guess: below it nothing passes


@dataclass(frozen=True)
class Trial:
    """What a probe said. ``near``: it failed by little, or another one may decide. ``generator_bound``: the generator
    failed, not the server. ``unknown``: it had too few answers to pass or to fail."""

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
    return search.found


class _Search:
    CONFIRMATIONS = 3  # probes kept for them

    def __init__(self, probe: Probe, probes_max: int, precision: float) -> None:
        self.found = Bracket()
        self._probe, self._probes_max, self._precision = probe, probes_max, precision

    def narrow(self, rate: float, floor: float) -> None:
        """Ends early at a rate that cannot be decided."""
        found, down = self.found, DOWN
        while rate >= floor and not found.narrow_enough(self._precision):
            if self._left() <= self.CONFIRMATIONS:
                found.exhausted = True
                return
            trial = self._decide(rate, confirm=False)
            if trial.unknown:
                found.unknown = rate
                return
            if trial.passed:
                found.low = rate
            else:
                found.high, found.generator_bound = rate, trial.generator_bound
            if found.low is None:
                rate *= down
                down *= down  # an SLO that nothing keeps should not take an hour to find out
            elif found.high is None:
                rate *= UP
            else:
                rate = math.sqrt(found.low * found.high)

    def confirm(self) -> None:
        """Steps back by more each time until the longer run passes too."""
        found, back = self.found, self._precision
        while found.low is not None and self._left() > 0:
            trial = self._decide(found.low, confirm=True)
            if trial.passed:
                found.confirmed = True
                return
            if trial.unknown:
                found.unknown = found.low
                return
            found.high, found.generator_bound = found.low, trial.generator_bound
            found.low *= max(DOWN, 1 - back)
            back *= 2
        found.exhausted |= found.low is not None

    def _decide(self, rate: float, confirm: bool) -> Trial:
        """The trial of a rate, or the second one where another may say more. A confirmation is long enough to fail by
        little."""
        trial = self._try(rate, confirm)
        again = not trial.passed and trial.near and (trial.unknown or not confirm)
        if again and self._left() > (0 if confirm else self.CONFIRMATIONS):
            trial = self._try(rate, confirm)
        return trial

    def _try(self, rate: float, confirm: bool) -> Trial:
        self.found.probes += 1
        return self._probe(rate, confirm)

    def _left(self) -> int:
        return self._probes_max - self.found.probes
