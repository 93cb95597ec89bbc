"""When a process that is alive must be killed because it does not get on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TICK_NS = 100_000_000
STOPPED_MAX_NS = 1_000_000_000
SILENCE_MAX_NS = 5_000_000_000  # of one that is not stopped: on a busy machine it may only be waiting for a core
FIRST_BEAT_MAX_NS = 60_000_000_000
READY_MAX_NS = 600_000_000_000


class OwnTime:
    """The time that passed for the watched as far as we can tell.

    When the watcher itself comes late, so perhaps did everybody: a tick counts as TICK_NS at most, and what is above
    is put down to the machine.
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

    What is held against it is the sum of what its ticks are charged, never the difference of two times: a machine that
    stood still (a virtual one that was paused, a frozen container) would have everybody's steps too late at once.
    """

    started_ns: int  # this and other times: of CLOCK_MONOTONIC
    age_ns: int = 0
    beat_ns: int = 0
    silent_ns: int = 0
    step_started_ns: int = 0
    step_ns: int = 0  # how long that step has taken
    dying_ns: int = 0  # since it was killed

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
        """Why it must be killed, or None. Once a tick, with what the segment says about the process now."""
        self.age_ns += charge_ns
        if heartbeat_ns <= self.started_ns:  # its heartbeat thread has not begun: it is importing
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


def is_stopped(pid: int) -> bool:
    """Whether a process has been stopped (SIGSTOP, a debugger), which its heartbeat alone cannot tell from starving."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(") ")[2][:1] in ("T", "t")
