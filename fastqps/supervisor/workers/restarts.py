"""How soon, and how often, a process that died is started again."""

from __future__ import annotations

from collections import deque

RESTARTS_MAX = 5
WINDOW_S = 60.0
DELAY_FIRST_S = 0.25
DELAY_MAX_S = 5.0


class RestartBudget:
    """At most ``most`` restarts in any WINDOW_S of service: the first at once, the others ever later.

    Time in which nothing was served does not count: of what takes minutes to start and dies then no two deaths would
    fall into one window, and it would be started for ever.
    """

    def __init__(self, most: int = RESTARTS_MAX) -> None:
        self._most = most
        self._deaths: deque[float] = deque(maxlen=most + 1)

    def next_delay_s(self, served_s: float) -> float | None:
        """Seconds to wait before the restart that a death calls for; None: it stays down. ``served_s``: how long there
        was service until then, before and after all deaths."""
        while self._deaths and served_s - self._deaths[0] >= WINDOW_S:
            self._deaths.popleft()
        self._deaths.append(served_s)
        recent = len(self._deaths)
        if recent > self._most:
            return None
        return 0.0 if recent == 1 else float(min(DELAY_FIRST_S * 2 ** (recent - 2), DELAY_MAX_S))
