"""Detects dispatchers that are alive but make no progress, by the canaries that front doors send them."""

from __future__ import annotations

from fastqps._core import DispatcherState

MISSES_MAX = 3
MISS_NS_MIN = 1_000_000_000  # the least patience: on a busy machine a process may wait for its core
SILENCE_MAX_NS = 300_000_000  # beyond this the heartbeat decides


class Canary:
    """The supervisor's record of one dispatcher's canaries, over all its incarnations."""

    def __init__(self, interval_ns: int) -> None:
        self.missed = 0
        self._interval_ns = interval_ns
        self._miss_ns = max(interval_ns, MISS_NS_MIN)
        self._steps_done = -1
        self._progress_ns = 0
        self._waited_ns = 0

    def age_s(self, now_ns: int) -> float | None:
        """Seconds since its start or its last finished step, of a client or a canary. None: canaries are off, and an
        idle dispatcher is not stuck."""
        return (now_ns - self._progress_ns) / 1e9 if self._interval_ns else None

    def overdue(self, now_ns: int, charge_ns: int, line: DispatcherState, silent_ns: int) -> str | None:
        """Returns why its process must be killed, or None. Call it once a tick, with the segment's present state.

        Time counts in which a canary waits, nothing is on the device (what takes too long there is --step-timeout's)
        and the heartbeat goes on (else the process has no core, or is stopped, which others see).
        """
        if line.steps_done != self._steps_done or not line.ready:
            self._steps_done, self._progress_ns, self._waited_ns = line.steps_done, now_ns, 0
            return None
        if not line.canary_since_ns or line.step_started_ns or not self._interval_ns:
            self._waited_ns = 0
            return None
        if silent_ns > SILENCE_MAX_NS:
            return None
        before = self._waited_ns
        self._waited_ns += charge_ns
        if self._waited_ns // self._miss_ns == before // self._miss_ns:
            return None
        self.missed += 1
        if self._waited_ns < MISSES_MAX * self._miss_ns:
            return None
        waited_s, self._waited_ns = self._waited_ns / 1e9, 0
        return f"takes no requests: a canary waits for {waited_s:.1f} s, and nothing is on its device"
