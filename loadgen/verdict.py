"""Whether a run says something about the server: VALID, UNSTABLE (it fell behind all the time), or INVALID (the
generator was the limit). Late because the server let the generator wait is latency, and never makes a run invalid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from loadgen.statistics import line
from loadgen.units import format_duration

Floats = NDArray[np.float64]
LATENESS_LEAST_NS = 1_000_000  # below that nobody's latency is in doubt
LATENESS_SHARE = 0.05  # of the p99 response time
ACHIEVED_LEAST = 0.995
# Shares of a thread's time, in closed loops and where calls were not sent in time:
BUSY_MOST = 0.98  # then it could hardly have asked for more
DELAYED_MOST = 0.5  # that it waited for a CPU
_INTERVALS_LEAST = 5
_GROWTH_LEAST = 0.3  # of the mean over the run; a line from nothing upwards grows by twice its mean
_BACKLOG_LEAST = 0.01  # of the calls that were due: what a server lacks that is 1 % too slow
_CHANCE = 2.0  # times the square root of the calls that were due: what Poisson arrivals add up to without any trend


@dataclass(frozen=True)
class Measured:
    """The measured values on which a verdict depends.

    ``due`` calls in the measured window, ``sent`` of them within it. ``own_lateness_p99_ns``: of the lateness that the
    generator caused; ``own_share``: its part in all lateness. For each whole interval of the window: ``open_calls``,
    those that wait to be sent included, and ``p50_ns`` of the response time (NaN: nothing was answered). ``busy``
    and ``delayed``: of each thread, the share of its time in which it ran or wanted to, and in which it only wanted to.
    ``abandoned``: calls without a deadline that were still open when the grace after the run was over.
    """

    closed: bool
    due: int
    sent: int
    p99_ns: int
    own_lateness_p99_ns: int
    own_share: float
    open_calls: Sequence[int] = ()
    p50_ns: Sequence[float] = ()
    busy: Sequence[float] = ()
    delayed: Sequence[float] = ()
    abandoned: int = 0


@dataclass(frozen=True)
class Verdict:
    """VALID, UNSTABLE or INVALID; ``reasons`` say why it is not VALID. ``failed``: no call was answered OK."""

    word: Literal["VALID", "UNSTABLE", "INVALID"]
    reasons: list[str] = field(default_factory=list)
    failed: bool = False


def judge(run: Measured) -> Verdict:
    """The verdict. INVALID comes first: what a generator measures that is its own limit says nothing of stability."""
    if run.due == 0:
        return Verdict("INVALID", ["no call was due in the measured window"])
    if reasons := _generator_bound(run):
        return Verdict("INVALID", reasons)
    if not run.closed and (reason := _unstable(run)):
        return Verdict("UNSTABLE", [reason])
    if run.abandoned > _BACKLOG_LEAST * run.due:
        # They are in no percentile: without them the figures are better than the server.
        return Verdict(
            "UNSTABLE", [f"{run.abandoned:,} of {run.due:,} calls were not answered before the run was over"]
        )
    return Verdict("VALID")


def _generator_bound(run: Measured) -> list[str]:
    if run.closed:
        return _no_time(run)
    reasons = []
    limit_ns = max(LATENESS_LEAST_NS, LATENESS_SHARE * run.p99_ns)
    if run.own_lateness_p99_ns > limit_ns:
        late = f"{format_duration(run.own_lateness_p99_ns)}, the limit is {format_duration(limit_ns)}"
        reasons.append(f"generator-bound: the p99 of the lateness that it caused itself is {late}")
    if run.sent < ACHIEVED_LEAST * run.due:
        if run.own_share > 0.5:
            reasons.append(f"generator-bound: it sent {run.sent / run.due:.1%} of the calls that were due in time")
        else:  # no stream was free; but perhaps only as it had not read the answers that were there
            reasons += _no_time(run)
    return reasons


def _no_time(run: Measured) -> list[str]:
    """Why the generator's threads had no time for more calls than they made; none if they had."""
    if run.busy and min(run.busy) > BUSY_MOST:
        busy = f"its threads were busy {min(run.busy):.1%} of the time"
        return [f"generator-bound: {busy}; the server may be faster than this"]
    if run.delayed and max(run.delayed) > DELAYED_MOST:
        return [f"generator-bound: other programs had its CPU for {max(run.delayed):.0%} of the time"]
    return []


def _unstable(run: Measured) -> str:
    """Both the calls that are open and the response time grow from beginning to end, and by much."""
    open_calls = np.asarray(run.open_calls, dtype=np.float64)
    p50_ns = np.asarray(run.p50_ns, dtype=np.float64)
    p50_ns = p50_ns[~np.isnan(p50_ns)]
    if len(open_calls) < _INTERVALS_LEAST or len(p50_ns) < _INTERVALS_LEAST:
        return ""
    backlog_least = max(_BACKLOG_LEAST * run.due, _CHANCE * math.sqrt(run.due))
    if _growth(open_calls) < backlog_least or _growth(p50_ns) <= 0:
        return ""
    return (
        f"the server fell behind throughout: open calls went from {open_calls[0]:,.0f} to {open_calls[-1]:,.0f}, "
        f"the median response time from {format_duration(p50_ns[0])} to {format_duration(p50_ns[-1])}"
    )


def _growth(values: Floats) -> float:
    """The rise of a line through them; 0 if that may be chance (95 % interval of its slope), if it is little
    beside their mean, or if a third of them is not higher than the one before."""
    n = len(values)
    through = line(range(n), values.tolist())
    thirds = [part.mean() for part in np.array_split(values, 3)]
    rises = through.slope > through.half and thirds[0] < thirds[1] < thirds[2]
    growth = through.slope * (n - 1)
    return growth if rises and growth > _GROWTH_LEAST * through.middle else 0.0
