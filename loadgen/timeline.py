"""The timeline of a run: converts the engine's steps to seconds of the measured window."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from loadgen.histogram import Histogram, sparse, us

if TYPE_CHECKING:
    from loadgen._native import Interval

NS = 1_000_000_000
_STEPS_NS = ((4 * NS, NS // 10), (8 * NS, NS // 5), (20 * NS, NS // 2))  # shorter than … : steps of …


def step_ns(duration_ns: int) -> int:
    """The interval of the engine's reports: at least 20 in a run of two seconds or more, and at least one a second."""
    return next((step for limit, step in _STEPS_NS if duration_ns < limit), NS)


class Second:
    """Up to one second of the run. ``start_s`` counts from the start of measuring: the warm-up is before 0."""

    def __init__(self, start_s: float, phase: str, steps: list[Interval], length_s: float) -> None:
        last = steps[-1]
        self.start_s = start_s
        self.phase = phase  # warmup, measured, or drain
        self.length_s = round(length_s, 6)
        self.due = sum(step.due for step in steps)
        self.sent = sum(step.sent for step in steps)
        self.in_flight, self.waiting = last.in_flight, last.waiting
        self.own_lateness_max_ns = max(step.own_lateness_max_ns for step in steps)
        self.status: Counter[str] = Counter()
        for step in steps:
            self.status.update(step.outcomes)
        histogram = merged(steps)
        self.answered = histogram.count
        self.p50_ns, self.p99_ns = histogram.percentile_ns(50), histogram.percentile_ns(99)

    def as_json(self) -> dict[str, Any]:
        """An entry of ``timeline``, and a line of ``--progress json``. ``t_s``: its end."""
        return {
            "t_s": round(self.start_s + self.length_s, 6),
            "length_s": self.length_s,
            "phase": self.phase,
            "due": self.due,
            "sent": self.sent,
            "ok": self.status.get("OK", 0),
            "status": dict(self.status),
            "p50_us": us(self.p50_ns) if self.answered else None,
            "p99_us": us(self.p99_ns) if self.answered else None,
            "in_flight": self.in_flight,
            "waiting": self.waiting,
            "own_lateness_max_us": us(self.own_lateness_max_ns),
        }


class Timeline:
    """Takes the engine's steps as they come; keeps whole seconds, and of each measured step what a verdict needs."""

    def __init__(self, measure_from_ns: int, measure_until_ns: int, step: int) -> None:
        self.seconds: list[Second] = []
        self.open_calls: list[int] = []  # at the end of each whole step of the window
        self.p50_ns: list[float] = []
        self._from_ns, self._until_ns, self._step = measure_from_ns, measure_until_ns, step
        self._gathered: list[Interval] = []

    def take(self, steps: Iterable[Interval], ended: bool = False, cut: bool = False) -> list[Second]:
        """The seconds that are complete with these steps; with ``ended`` the last one too. It is as long as the window
        goes on, though the engine ends with the last answer; when the run was ``cut`` off it may be shorter."""
        before = len(self.seconds)
        for step in steps:
            if self._gathered and self._place(step) != self._place(self._gathered[0]):
                self._close()
            self._gathered.append(step)
            self._note(step)
        if ended and self._gathered:
            self._close(0 if cut else self._until_ns)
        return self.seconds[before:]

    def measured(self) -> list[Second]:
        """The seconds of the measured window."""
        return [second for second in self.seconds if second.phase == "measured"]

    def _place(self, step: Interval) -> tuple[str, int]:
        """Phase, and number of the second in it."""
        middle_ns = step.index * self._step + self._step // 2
        if middle_ns < self._from_ns:
            return "warmup", middle_ns // NS
        if middle_ns < self._until_ns:
            return "measured", (middle_ns - self._from_ns) // NS
        return "drain", (middle_ns - self._until_ns) // NS

    def _note(self, step: Interval) -> None:
        complete = step.end_ns == (step.index + 1) * self._step
        if complete and self._place(step)[0] == "measured" and step.end_ns <= self._until_ns:
            self.open_calls.append(step.in_flight + step.waiting)
            histogram = merged([step])
            self.p50_ns.append(histogram.percentile_ns(50) if histogram.count else float("nan"))

    def _close(self, least_end_ns: int = 0) -> None:
        phase, _ = self._place(self._gathered[0])
        start_ns, end_ns = self._gathered[0].index * self._step, self._gathered[-1].end_ns
        if phase == "measured":
            end_ns = max(end_ns, min(least_end_ns, start_ns + NS))
        self.seconds.append(Second((start_ns - self._from_ns) / NS, phase, self._gathered, (end_ns - start_ns) / NS))
        self._gathered = []


def merged(steps: list[Interval]) -> Histogram:
    """Response times of all steps together."""
    return sparse(
        np.concatenate([step.response_indexes for step in steps]),
        np.concatenate([step.response_counts for step in steps]),
    )
