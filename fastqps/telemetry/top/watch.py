"""Looks at a server again and again, also across its restarts."""

from __future__ import annotations

import time

from fastqps.telemetry.live.remote import FetchError, fetch_counts
from fastqps.telemetry.live.view import View, view

ANSWER_MAX_S = 5.0  # then the look has failed, and the next one is due


class Watch:
    """Watches a server. ``view``: the result of the last two readings; ``trouble``: why the newest one failed, or
    ""."""

    def __init__(self, admin: str) -> None:
        """Takes the first look. Raises ``FetchError`` where there is no server."""
        self.admin = admin
        self.view: View | None = None
        self.trouble = ""
        self.restarted = False  # since the view before this one
        self._last = fetch_counts(admin, ANSWER_MAX_S)
        self._answered_s = time.monotonic()

    @property
    def age_s(self) -> float:
        """The age of the server's last answer."""
        return time.monotonic() - self._answered_s

    def look(self, *, raising: bool = False) -> None:
        """Reads the server once more. A failure is noted in ``trouble``, and the last view stays. ``raising``: it
        raises ``FetchError`` instead."""
        try:
            counts = fetch_counts(self.admin, ANSWER_MAX_S)
        except FetchError as error:
            if raising:
                raise
            self.trouble = str(error)
            return
        self.trouble, self._answered_s = "", time.monotonic()
        self.restarted = counts["started"] != self._last["started"]
        self.view = None if self.restarted else view(self._last, counts)
        self._last = counts


class Ticks:
    """Every ``interval_s`` from now on. A look that takes longer loses ticks, and does not make the next ones early."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._next_s = time.monotonic()

    def wait(self) -> None:
        """Waits until the next tick."""
        now = time.monotonic()
        self._next_s = max(self._next_s + self._interval_s, now + min(0.1, self._interval_s))
        time.sleep(self._next_s - now)
