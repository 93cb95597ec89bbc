"""Decides when a living process must be killed because it makes no progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

TICK_NS = 100_000_000
STOPPED_MAX_NS = 1_000_000_000
SILENCE_MAX_NS = 5_000_000_000  # for a process that is not stopped: on a busy machine it may only wait for a core
FIRST_BEAT_MAX_NS = 60_000_000_000
READY_MAX_NS = 600_000_000_000


class OwnTime:
    """The time that has passed for the watched processes.

    If the watcher itself is late, all processes may have been delayed. So a tick counts little more than TICK_NS, and
    the rest is blamed on the machine.
    """

    def __init__(self, now_ns: int) -> None:
        self._last_ns = now_ns

    def tick(self, now_ns: int) -> int:
        """Nanoseconds to charge to the watched since the last call."""
        passed, self._last_ns = now_ns - self._last_ns, now_ns
        return min(passed, TICK_NS + TICK_NS // 2)


@dataclass
class Watched:
    """One incarnation of a process.

    Its lateness is a sum of charged ticks, never the difference of two times. Otherwise all steps would be too late at
    once after a pause of the machine (a paused virtual machine, a frozen container).
    """

    started_ns: int  # times are of CLOCK_MONOTONIC
    age_ns: int = 0
    beat_ns: int = 0
    silent_ns: int = 0
    step_started_ns: int = 0
    step_ns: int = 0  # duration of that step so far
    dying_ns: int = 0  # time since it was killed

    def overdue(
        self,
        charge_ns: int,
        *,
        heartbeat_ns: int,
        ready: bool,
        step_started_ns: int,
        step_timeout_ns: int,
        is_stopped: Callable[[], bool],
    ) -> str | None:
        """Returns why it must be killed, or None. Call it once a tick, with the segment's present state of the
        process."""
        self.age_ns += charge_ns
        if heartbeat_ns <= self.started_ns:  # its heartbeat thread has not started: it is still importing
            late = self.age_ns > FIRST_BEAT_MAX_NS
            return f"gave no sign of life in {FIRST_BEAT_MAX_NS // 10**9} s after its start" if late else None
        if heartbeat_ns != self.beat_ns:
            self.beat_ns, self.silent_ns = heartbeat_ns, 0
        else:
            self.silent_ns += charge_ns
        if step_started_ns != self.step_started_ns:
            self.step_started_ns, self.step_ns = step_started_ns, 0
        else:
            self.step_ns += charge_ns
        if self.silent_ns > STOPPED_MAX_NS and (self.silent_ns > SILENCE_MAX_NS or is_stopped()):
            return f"gave no sign of life for {self.silent_ns / 1e9:.1f} s"
        if step_timeout_ns and step_started_ns and self.step_ns > step_timeout_ns:
            return f"its step takes longer than --step-timeout: {self.step_ns / 1e9:.1f} s"
        if not ready and self.age_ns > READY_MAX_NS:
            return f"was not ready in {READY_MAX_NS // 10**9} s"
        return None
