"""One pod under load, second by second: what was recorded of it, and the queue that it still has from before.

A queue is all that a pod remembers. With items left over it is in the state in which the recorded pod had as many
waiting, whatever is offered to it now: as slow, and as busy by each of its signals.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate

from fastqps.autoscale.recording import SIGNALS, Level, Recording

CELLS = 800  # of a grid over loads, so that a second costs no search
ALL = 0.98  # of what was offered


@dataclass(slots=True)
class Second:
    """The outcomes of a second's items, as shares of the offered load. ``cell``: the state of the pod."""

    cell: int
    answered: float
    good: float
    refused: float


class PodCurves:
    """A recording as tables by cell, a cell being a load."""

    def __init__(self, recording: Recording) -> None:
        levels = recording.levels
        self.top = levels[-1].offered
        self.capacity = recording.capacity
        self.slo_us = recording.slo_us
        self._per_load = CELLS / self.top
        loads = [k / self._per_load for k in range(CELLS + 1)]
        xs = [0.0, *(level.offered for level in levels)]

        def curve(at_zero: float, values: list[float]) -> list[float]:
            return [_line(xs, [at_zero, *values], load) for load in loads]

        answered = curve(0.0, [_answered(level) for level in levels])
        # What was worse at less load is the machine's noise, not the pod. A queue that got shorter would lose items.
        good = [*accumulate((level.good for level in reversed(levels)), max)][::-1]
        p99_us = [*accumulate((level.p99_us for level in reversed(levels)), min)][::-1]
        self.good = curve(good[0], good)
        self.p99_us = curve(p99_us[0], p99_us)
        self.waiting = curve(0.0, list(accumulate((level.waiting for level in levels), max)))
        # With a queue: what it answers where more is offered than that, else as much as it ever does.
        most = max(answered)
        self.answers_most = [
            found if found < (1 - 1e-6) * load else most for found, load in zip(answered, loads, strict=True)
        ]
        self.signals = {
            name: curve(_idle(name, [x.signals[name] for x in levels]), [x.signals[name] for x in levels])
            for name in SIGNALS
        }

    def cell(self, load: float) -> int:
        """The cell of a load in items per second."""
        return min(CELLS, int(load * self._per_load + 0.5))

    def cell_of_queue(self, items: float) -> int:
        """The cell of the lowest load with this many waiting items."""
        return min(CELLS, bisect_left(self.waiting, items))


def _answered(level: Level) -> float:
    """All of them, but for the edges of what was counted."""
    return level.offered if level.answered > ALL * level.offered else level.answered


def _idle(name: str, values: list[float]) -> float:
    """The state of a pod without load: it uses CPU, and everything else is 0."""
    return values[0] * 0.5 if name == "cpu" else 0.0


def _line(xs: list[float], ys: list[float], x: float) -> float:
    k = min(max(bisect_left(xs, x), 1), len(xs) - 1)
    share = min(1.0, max(0.0, (x - xs[k - 1]) / (xs[k] - xs[k - 1])))
    return ys[k - 1] + share * (ys[k] - ys[k - 1])


class PodModel:
    """The pods of a pool, all alike: a balancer spreads what comes evenly, and what is left over with it."""

    def __init__(self, curves: PodCurves) -> None:
        self._curves = curves
        self.queue = 0.0  # items, of one pod, more than its load alone has waiting

        self._pods = 1

    def second(self, offered: float, pods: int, tick_s: float, cost: float = 1.0) -> Second:
        """``pods`` are offered so many items per second for ``tick_s``; each takes ``cost`` times what was recorded,
        so that pods do everything ``cost`` times more slowly."""
        curves = self._curves
        self.queue *= self._pods / pods
        self._pods = pods
        load = offered / pods * cost
        usual = curves.cell(load)
        cell = max(usual, curves.cell_of_queue(self.queue)) if self.queue > curves.waiting[usual] else usual
        can = curves.answers_most[usual]
        backlog = self.queue + (load - can) * tick_s
        self.queue = min(max(0.0, backlog), curves.waiting[CELLS])
        refused = max(0.0, backlog - self.queue) / (load * tick_s) if load else 0.0
        answered = 1.0 - refused
        return Second(cell, answered, min(answered, curves.good[cell]), refused)
