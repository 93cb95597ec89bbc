"""When lanes may prepare, between steps, what makes their later steps faster: on a GPU a captured graph at a time.

A server starts with few graphs, so that it serves soon, and steps of usual sizes get their own while it serves. Each
holds its dispatcher up for some steps. So captures take a small share of the time, however many are wanted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from fastqps.runners.lane import Lane

SHARE = 0.1  # of the time
LOOK_S = 0.02  # between two looks at what lanes want


class Refinement:
    """``settle`` ends the start of all lanes. ``clock``: seconds."""

    def __init__(self, lanes: Sequence[Lane[Any]], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lanes = {i: lane for i, lane in enumerate(lanes) if lane.settle()}
        self._next_s = clock()

    def due(self) -> bool:
        """Whether it is time to ask for a ``lane``."""
        return bool(self._lanes) and self._clock() >= self._next_s

    def lane(self) -> int | None:
        """The number of a lane that can refine. Those that did so last come last."""
        self._next_s = self._clock() + LOOK_S
        return next((i for i, lane in self._lanes.items() if lane.can_refine()), None)

    def run(self, number: int, drain: Callable[[], None]) -> None:
        """Lets this lane prepare one thing, after ``drain`` has ended its steps in flight: both count as its time."""
        lane = self._lanes.pop(number)
        self._lanes[number] = lane
        began_s = self._clock()
        drain()
        lane.refine()
        ended_s = self._clock()
        self._next_s = ended_s + (ended_s - began_s) * (1 / SHARE - 1)
