"""How much of its measured capacity a server uses: a ratio over the last seconds."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from fastqps._core import now_ns
from fastqps.capacity import Capacity
from fastqps.codes import CODES
from fastqps.metrics.source import Source

WINDOW_S = 10
_OK = CODES.index("OK")


@dataclass(frozen=True)
class Load:
    """Means over a window: items answered OK per second, items in flight."""

    rate: float
    in_flight: float

    def saturation(self, capacity: Capacity) -> float:
        """The larger share of the two that are given at the knee; 1: there. Items in flight see what a rate cannot:
        a server that has become slower."""
        return max(self.in_flight / capacity.in_flight, self.rate / capacity.rate)

    def headroom(self, capacity: Capacity) -> float:
        """Items per second that still fit."""
        return max(0.0, capacity.rate * (1 - self.saturation(capacity)))


class LoadWindow:
    """The load of the last WINDOW_S seconds. Sampled once a second."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._samples: deque[tuple[int, int, int]] = deque([self._totals()], maxlen=WINDOW_S + 1)

    def sample(self) -> None:
        """Once a second."""
        self._samples.append(self._totals())

    def load(self) -> Load | None:
        """None: no time has passed since the first sample."""
        first, last = self._samples[0], self._totals()
        time_ns, answered, inflight_ns = (now - then for now, then in zip(last, first, strict=True))
        return Load(1e9 * answered / time_ns, inflight_ns / time_ns) if time_ns > 0 else None

    def _totals(self) -> tuple[int, int, int]:
        segment = self._source.segment
        doors = [segment.stats(i) for i in range(segment.sizes.doors)]
        answered = sum(int(door["items"][:, _OK].sum()) for door in doors)
        return now_ns(), answered, sum(door["inflight_ns"] for door in doors)
