"""The simplest of some candidates that no other beats, found by noisy runs.

Candidates run in turn, round after round, each round in the opposite order of the last: what drifts meanwhile hits all
of them alike, and only differences within a round are looked at. Whoever is clearly beaten runs no more, so that the
runs go to those that are close. A candidate that is more complicated has to show its gain, or it loses to the simpler.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from loadgen.statistics import t_quantile

ERROR = 0.025  # on each side: intervals cover 95 %


@dataclass(frozen=True)
class Rules:
    """The rules by which a race is decided."""

    gain_min: float = 0.02  # a more complicated candidate must promise as much; 0.02 is 2 %
    rounds_min: int = 2
    rounds_max: int = 6

    def __post_init__(self) -> None:
        if not 0 <= self.gain_min < 1 or not 2 <= self.rounds_min <= self.rounds_max:
            raise ValueError(f"no such rules: {self}")


@dataclass(frozen=True)
class Gain:
    """The gain of one candidate over another, as log ratio."""

    mean: float
    half: float  # of the 95 % interval

    def __str__(self) -> str:
        """``+5.2 % ± 1.3``"""
        return f"{100 * math.expm1(self.mean):+.1f} % ± {100 * math.exp(self.mean) * self.half:.1f}"

    def __neg__(self) -> Gain:
        """The gain of the other one over this one."""
        return Gain(-self.mean, self.half)

    @property
    def lower(self) -> float:
        return self.mean - self.half

    @property
    def upper(self) -> float:
        return self.mean + self.half


@dataclass
class Noise:
    """The spread of one run's log rate: a first guess that counts as a few runs, and all that was compared since."""

    guess: float = 0.015
    freedom: float = 2.0
    squares: float = field(init=False)

    def __post_init__(self) -> None:
        self.squares = self.freedom * self.guess**2

    @property
    def deviation(self) -> float:
        return math.sqrt(self.squares / self.freedom)

    def gain(self, of: Sequence[float | None], over: Sequence[float | None], looks: int = 1) -> Gain | None:
        """From the rounds in which both ran; None without one. ``looks``: how many such intervals are to hold at once.

        The variance is that of these rounds and of all earlier ones together, weighed by how many there are: two
        rounds alone would know next to nothing about it.
        """
        pairs = _differences(of, over)
        if not pairs:
            return None
        mean = fmean(pairs)
        own = sum((d - mean) ** 2 for d in pairs)
        freedom = self.freedom + len(pairs) - 1
        variance = (2 * self.squares + own) / freedom  # of a difference of two runs
        return Gain(mean, t_quantile(1 - ERROR / looks, freedom) * math.sqrt(variance / len(pairs)))

    def learn(self, of: Sequence[float | None], over: Sequence[float | None]) -> None:
        """Takes a finished comparison into the guess for later ones."""
        pairs = _differences(of, over)
        if len(pairs) > 1:
            mean = fmean(pairs)
            self.squares += sum((d - mean) ** 2 for d in pairs) / 2
            self.freedom += len(pairs) - 1


@dataclass(frozen=True)
class Standing:
    """One candidate at the end of a race."""

    # The rate of each run, in the order of rounds. 0: it broke the SLO. None: the run says nothing, or did not run.
    rates: tuple[float | None, ...]
    gain: Gain | None  # over the winner; None: the winner itself, or nothing to compare


@dataclass(frozen=True)
class Race:
    """The result. ``winner`` is an index into the candidates; None: none of them ever held the SLO. ``finished``: False
    if the runs ran out before it was decided."""

    winner: int | None
    standings: tuple[Standing, ...]
    rounds: int
    runs: int
    finished: bool = True


def race(run: Callable[[int], float | None], candidates: int, rules: Rules, noise: Noise, runs_max: int) -> Race:
    """Runs candidates 0 (the simplest) to ``candidates - 1`` until one is left, or no more is to be learned.

    ``run`` gives a rate, 0 where the candidate did not hold the SLO, None where the run says nothing of it; a candidate
    with two such runs is out. At most ``runs_max`` runs, and no half rounds.
    """
    field_ = _Field(candidates, rules, noise)
    runs, rounds, finished = 0, 0, True
    while rounds < rules.rounds_max and (len(field_.left) > 1 or rounds == 0):
        if runs + len(field_.left) > runs_max:
            finished = False
            break
        order = field_.left if rounds % 2 == 0 else field_.left[::-1]
        field_.add_round({c: run(c) for c in order})
        runs, rounds = runs + len(order), rounds + 1
        if rounds >= rules.rounds_min:
            field_.drop_beaten()
    winner = field_.simplest()
    if winner is not None and (rival := field_.closest(winner)) is not None:
        noise.learn(field_.logs[rival], field_.logs[winner])
    standings = tuple(
        Standing(
            tuple(field_.rates[c]),
            None if winner in (None, c) else noise.gain(field_.logs[c], field_.logs[winner or 0]),
        )
        for c in range(candidates)
    )
    return Race(winner, standings, rounds, runs, finished)


class _Field:
    """The candidates of a race and what their runs have shown so far."""

    def __init__(self, candidates: int, rules: Rules, noise: Noise) -> None:
        self.left = list(range(candidates))
        self.rates: list[list[float | None]] = [[] for _ in range(candidates)]
        self.logs: list[list[float | None]] = [[] for _ in range(candidates)]  # by round; None: it failed
        self._rules = rules
        self._noise = noise
        # A race looks after every round and at every candidate; each look must not be a chance to err of its own.
        self._looks = max(1, candidates - 1) * (rules.rounds_max - rules.rounds_min + 1)

    def add_round(self, rates: dict[int, float | None]) -> None:
        for c, rate in rates.items():
            self.rates[c].append(rate)
            self.logs[c].append(math.log(rate) if rate else None)

    def drop_beaten(self) -> None:
        """Removes who has failed twice, who is clearly worse than the best, and who is more complicated for nothing."""
        self.left = [c for c in self.left if sum(not rate for rate in self.rates[c]) < 2]
        while len(self.left) > 1:
            best = max(self.left, key=self._mean)
            kept = [c for c in self.left if c == best or not self._beats(best, c)]
            if kept[0] != best and self._cannot_gain(best, kept[0]):
                kept.remove(best)  # as good as the best, and simpler
            if kept == self.left:
                return
            self.left = kept

    def simplest(self) -> int | None:
        """The simplest of the remaining candidates; None if none is left or all failed."""
        return next((c for c in self.left if any(self.rates[c])), None)

    def closest(self, winner: int) -> int | None:
        """The candidate with most rounds beside the winner: it tells most about the noise."""
        others = [c for c in range(len(self.logs)) if c != winner]
        return max(others, key=lambda c: len(_differences(self.logs[c], self.logs[winner])), default=None)

    def _beats(self, best: int, other: int) -> bool:
        if other > best:
            return self._cannot_gain(other, best)
        gain = self._noise.gain(self.logs[best], self.logs[other], self._looks)
        return gain is not None and gain.lower > 0 and gain.mean >= self._rules.gain_min

    def _cannot_gain(self, complicated: int, simple: int) -> bool:
        gain = self._noise.gain(self.logs[complicated], self.logs[simple])
        return gain is not None and gain.upper < self._rules.gain_min

    def _mean(self, candidate: int) -> float:
        known = [x for x in self.logs[candidate] if x is not None]
        return fmean(known) if known else -math.inf


def _differences(of: Sequence[float | None], over: Sequence[float | None]) -> list[float]:
    return [a - b for a, b in zip(of, over, strict=False) if a is not None and b is not None]
