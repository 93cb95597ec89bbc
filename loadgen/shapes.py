"""The rate over time, as a piecewise linear function of cumulative calls that can be inverted exactly.

A schedule is made in two steps. Gaps between calls come from a process of rate 1 (``arrivals``); a shape then says at
what moment of the run that many calls are due. So every shape works with every process, and its mean is exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadgen.errors import UsageError

Floats = NDArray[np.float64]
CORNERS_MAX = 2_000_000  # a rate that changes more often than that cannot be held in memory sensibly
_STEPS_PER_CURVE = 4096  # a ramp, or one period of a sine, as straight pieces


@dataclass(frozen=True)
class Shape:
    """Cumulative calls ``calls`` at the moments ``t_s``, both rising from 0 and as long as one another."""

    t_s: Floats
    calls: Floats

    @property
    def total(self) -> float:
        """Expected calls in all."""
        return float(self.calls[-1])

    def moments_s(self, calls: Floats) -> Floats:
        """The time at which the ``calls``-th call is due, in seconds."""
        return np.interp(calls, self.calls, self.t_s)

    def preceded(self, rate: float, seconds: float) -> Shape:
        """The shape after ``seconds`` of a constant ``rate``."""
        if seconds <= 0:
            return self
        t_s = np.concatenate([[0.0], self.t_s + seconds])
        return Shape(t_s, np.concatenate([[0.0], self.calls + rate * seconds]))


def pieces(rates: Floats, lengths_s: Floats) -> Shape:
    """Rate ``rates[i]`` for ``lengths_s[i]`` seconds, one after the other."""
    return Shape(
        np.concatenate([[0.0], np.cumsum(lengths_s)]), np.concatenate([[0.0], np.cumsum(np.asarray(rates) * lengths_s)])
    )


def constant(seconds: float) -> Shape:
    """One call a second."""
    return pieces(np.ones(1), np.array([seconds]))


def on_off(on_s: float, off_s: float, seconds: float) -> Shape:
    """All calls in bursts of ``on_s``, nothing for ``off_s`` between them; it begins with a burst."""
    cycles = int(np.ceil(seconds / (on_s + off_s)))
    _check_corners(2 * cycles)
    lengths = np.tile([on_s, off_s], cycles)
    return _cut(pieces(np.tile([1.0, 0.0], cycles), lengths), seconds)


def modulated(
    rates: tuple[float, float], stay_s: tuple[float, float], seconds: float, rng: np.random.Generator
) -> Shape:
    """A two-state Markov-modulated rate: ``rates[i]`` while in state i, which lasts ``stay_s[i]`` on average."""
    state = int(rng.random() < stay_s[1] / sum(stay_s))  # as if it had been running for ever
    lengths: list[Floats] = []
    total_s = 0.0
    while total_s < seconds:
        cycles = int(seconds / sum(stay_s)) // 2 + 16
        _check_corners(2 * cycles + sum(map(len, lengths)))
        more = (rng.exponential(1.0, (cycles, 2)) * [stay_s[state], stay_s[1 - state]]).ravel()
        lengths.append(more)
        total_s += float(more.sum())
    all_lengths = np.concatenate(lengths)
    return _cut(pieces(np.resize([rates[state], rates[1 - state]], len(all_lengths)), all_lengths), seconds)


def steps(rates: tuple[float, ...], seconds: float) -> Shape:
    """Each rate for an equal part of the run."""
    return pieces(np.array(rates), np.full(len(rates), seconds / len(rates)))


def ramp(first: float, last: float, seconds: float) -> Shape:
    """A straight line from one rate to the other."""
    t_s = np.linspace(0.0, seconds, _STEPS_PER_CURVE + 1)
    return Shape(t_s, first * t_s + (last - first) * t_s**2 / (2 * seconds))


def sine(amplitude: float, period_s: float, seconds: float) -> Shape:
    """1 + ``amplitude`` · sin: a day in short. The mean is 1 over whole periods."""
    corners = int(np.ceil(seconds / period_s * _STEPS_PER_CURVE)) + 1
    _check_corners(corners)
    t_s = np.linspace(0.0, seconds, corners + 1)
    turn = 2 * np.pi / period_s
    return Shape(t_s, t_s + amplitude / turn * (1 - np.cos(turn * t_s)))


def _cut(shape: Shape, seconds: float) -> Shape:
    inside = int(np.searchsorted(shape.t_s, seconds))
    last = float(np.interp(seconds, shape.t_s, shape.calls))
    return Shape(np.append(shape.t_s[:inside], seconds), np.append(shape.calls[:inside], last))


def _check_corners(corners: int) -> None:
    if corners > CORNERS_MAX:
        raise UsageError(
            f"the rate would change {corners:,} times in this run; at most {CORNERS_MAX:,}: use longer periods"
        )
