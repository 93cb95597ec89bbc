"""Finds the peak rate of a server by a short closed loop: a start for sweeps and searches, and no more."""

from __future__ import annotations

from fastqps.bench.measure.context import Context
from fastqps.bench.results.result import BenchError

IN_FLIGHT = (64, 256, 1024)
WORTH = 1.1  # more calls in flight are worth trying only while they bring that much
SECONDS = 2.0


def find_peak(context: Context) -> float:
    """OK answers per second. The result has it as ``peak``, with the calls in flight. Raises ``BenchError`` where
    hardly anything is answered."""
    best, at = 0.0, 0
    for in_flight in IN_FLIGHT:
        load = context.load.closed(in_flight, duration_s=SECONDS, warmup_s=min(0.5, context.load.warmup_s))
        rate = context.measure({}, load, name=f"peak, {in_flight} in flight", keep=False, repetitions=1).rate
        gained = rate > WORTH * best
        if rate > best:
            best, at = rate, in_flight
        # One that takes so long to answer has long been full, and a longer queue would end after the run.
        if not gained or in_flight / max(rate, 1e-9) > SECONDS / 4:
            break
    if best * SECONDS < 1:
        raise BenchError("hardly anything was answered in a closed loop: there is no peak to begin with")
    context.result.extra["peak"] = {"rate": best, "in_flight": at}
    return best
