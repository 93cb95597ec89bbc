"""Limits how soon and how often a dead process is restarted."""

from __future__ import annotations

from collections import deque

RESTARTS_MAX = 5
WINDOW_S = 60.0
DELAY_FIRST_S = 0.25
DELAY_MAX_S = 5.0


class RestartBudget:
    """Allows at most ``most`` restarts in any WINDOW_S of service: the first at once, later ones with growing delays.

    Only time with service counts. Otherwise a process that dies after minutes of starting would never have two deaths
    in one window, and would be restarted for ever.
    """

    def __init__(self, most: int = RESTARTS_MAX) -> None:
        self._most = most
        self._deaths: deque[float] = deque(maxlen=most + 1)

    def next_delay_s(self, served_s: float) -> float | None:
        """Returns the seconds to wait before the restart after a death; None if the process stays down. ``served_s``:
        total time with service so far."""
        while self._deaths and served_s - self._deaths[0] >= WINDOW_S:
            self._deaths.popleft()
        self._deaths.append(served_s)
        recent = len(self._deaths)
        if recent > self._most:
            return None
        return 0.0 if recent == 1 else float(min(DELAY_FIRST_S * 2 ** (recent - 2), DELAY_MAX_S))
