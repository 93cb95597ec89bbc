"""How soon, and how often, a process that died is started again."""

from __future__ import annotations

from collections import deque

RESTARTS_MAX = 5
WINDOW_S = 60.0
DELAY_FIRST_S = 0.25
DELAY_MAX_S = 5.0


class RestartBudget:
    """At most RESTARTS_MAX restarts in any WINDOW_S: the first at once, the others ever later."""

    def __init__(self) -> None:
        self._deaths: deque[float] = deque(maxlen=RESTARTS_MAX + 1)
        self.total = 0

    def next_delay_s(self, now_s: float) -> float | None:
        """Seconds to wait before the restart that a death at ``now_s`` calls for; None: it stays down."""
        while self._deaths and now_s - self._deaths[0] >= WINDOW_S:
            self._deaths.popleft()
        self._deaths.append(now_s)
        recent = len(self._deaths)
        if recent > RESTARTS_MAX:
            return None
        self.total += 1
        return 0.0 if recent == 1 else float(min(DELAY_FIRST_S * 2 ** (recent - 2), DELAY_MAX_S))
