"""Closed loops that others begin with: the peak rate of a server, and as many calls in flight as fill its batches."""

from __future__ import annotations

from fastqps.bench.measure.context import Context
from fastqps.bench.measure.load import LoadSpec
from fastqps.bench.measure.target import Settings
from fastqps.bench.results.result import BenchError
from fastqps.config import decide
from fastqps.config.decide import most_dispatchers, most_items

IN_FLIGHT = (64, 256, 1024)
WORTH = 1.1  # more calls in flight are worth trying only while they bring that much
SECONDS = 2.0


def find_peak(context: Context) -> float:
    """OK answers per second. The result has it as ``peak``, with the calls in flight. Raises ``BenchError`` where
    hardly anything is answered."""
    best, at = 0.0, 0
    for in_flight in IN_FLIGHT:
        load = context.load.closed(in_flight, duration_s=SECONDS, warmup_s=min(0.5, context.load.warmup_s))
        rate = context.measure({}, load, name=f"peak, {in_flight} in flight", keep=False).rate
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


IN_FLIGHT_MIN = 16
WAIT_S_MAX = 2.0  # of a call among so many; and never more than a quarter of its deadline


def saturating(context: Context, in_flight: int | None, widest: Settings, start: Settings) -> LoadSpec:
    """``in_flight`` calls, or as many as keep the server busy that has the most places for them: ``widest``.

    Fewer where a server with the settings ``start``, which is tried for that, would be at them for seconds. One load
    for all settings that are compared: more in flight would be more, whatever the settings are.
    """
    if in_flight is not None:
        return context.load.closed(in_flight)
    load = context.load.closed(max(IN_FLIGHT_MIN, -(-items_for(context, widest) // context.payloads.call.items)))
    rate = context.measure(start, load, name=f"{load.in_flight:,} in flight, how many it takes", keep=False).rate
    longest_s = min(WAIT_S_MAX, load.deadline_s / 4) if load.deadline_s else WAIT_S_MAX
    return load.closed(max(IN_FLIGHT_MIN, min(load.in_flight or 0, round(rate * longest_s)))) if rate else load


def items_for(context: Context, settings: Settings) -> int:
    """Two batches in each lane's hands and two that wait; at most half of what may wait, so that none is refused."""
    config = decide(context.target.loaded(settings).config)
    batch = config.max_running or most_items(config)
    places = most_dispatchers(config) * (config.lanes or 2)
    return min(batch * (2 * places + 2), config.max_queue_items // 2)
