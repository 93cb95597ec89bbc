"""Finds the peak rate of a server by a short closed loop: a start for sweeps and searches, and no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastqps.bench.measure.context import Context
from fastqps.bench.measure.target import Settings
from fastqps.bench.results.result import BenchError

IN_FLIGHT = (64, 256, 1024)
WORTH = 1.1  # more calls in flight are worth trying only while they bring that much
SECONDS = 2.0


@dataclass(frozen=True)
class Peak:
    """``rate``: OK answers per second with ``in_flight`` calls at a time."""

    rate: float
    in_flight: int

    def as_json(self) -> dict[str, Any]:
        """For ``Result.extra``."""
        return {"rate": self.rate, "in_flight": self.in_flight}


def find_peak(context: Context, settings: Settings | None = None) -> Peak:
    """Raises ``BenchError`` where hardly anything is answered."""
    best = Peak(0.0, 0)
    for in_flight in IN_FLIGHT:
        load = context.load.closed(in_flight, duration_s=SECONDS, warmup_s=min(0.5, context.load.warmup_s))
        point = context.measure(settings or {}, load, name=f"peak, {in_flight} in flight", keep=False, repetitions=1)
        gained = point.rate > WORTH * best.rate
        if point.rate > best.rate:
            best = Peak(point.rate, in_flight)
        # One that takes so long to answer has long been full, and a longer queue would end after the run.
        if not gained or in_flight / max(point.rate, 1e-9) > SECONDS / 4:
            break
    if best.rate * SECONDS < 1:
        raise BenchError("hardly anything was answered in a closed loop: there is no peak to begin with")
    return best
