"""Reads a server's short metrics page once a second under load: reading the long one takes the generator's CPU time."""

from __future__ import annotations

import contextlib
import threading
from types import TracebackType
from typing import Self

from fastqps.telemetry.scrape import Scrape, ScrapeError, scrape

PATH = "/metrics/load"
EVERY_S = 1.0
PAGES_MAX = 4096


class Gauges:
    """Pages of ``admin`` (HOST:PORT) from entering to leaving. One that cannot be had just then is left out."""

    def __init__(self, admin: str) -> None:
        self._admin = admin
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gauges", daemon=True)
        self._pages: list[Scrape] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def last(self, seconds: float) -> list[Scrape]:
        """The pages of the last so many seconds, the oldest first; at least the last one if there is any."""
        if not self._pages:
            return []
        since_s = self._pages[-1].at_s - max(0.0, seconds)
        return [page for page in self._pages if page.at_s >= since_s]

    def _run(self) -> None:
        while len(self._pages) < PAGES_MAX:
            with contextlib.suppress(ScrapeError):
                self._pages.append(scrape(self._admin, path=PATH))
            if self._over.wait(EVERY_S):
                return
