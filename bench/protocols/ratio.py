"""The ratio of two rates that were measured in turn: of the medians, with an interval from the rounds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from fastqps.bench.statistics.intervals import mean_interval


@dataclass(frozen=True)
class Ratio:
    """``interval``: 95 %, of the mean log ratio of a round; None where there was one round only."""

    value: float
    interval: tuple[float, float] | None

    def __str__(self) -> str:
        return f"{self.interval[0]:.3g} to {self.interval[1]:.3g}" if self.interval else "one round: no interval"

    def apart(self) -> Ratio:
        """How far it is from 1, as a share."""
        if self.interval is None:
            return Ratio(abs(self.value - 1), None)
        ends = [abs(end - 1) for end in self.interval]
        least = 0.0 if self.interval[0] <= 1 <= self.interval[1] else min(ends)
        return Ratio(abs(self.value - 1), (least, max(ends)))


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """What both have in common in a round, such as a slower machine, does not widen the interval."""
    logs = mean_interval([math.log(a / b) for a, b in zip(ours, theirs, strict=True)])
    value = statistics.median(ours) / statistics.median(theirs)
    return Ratio(value, (math.exp(logs[0]), math.exp(logs[1])) if logs else None)
