"""``/live``: the page to watch a server with in a browser."""

from __future__ import annotations

from fastqps.admin.http import Answer, Request
from fastqps.telemetry.live import PAGE, Sampler

JSON = "application/json"


class Live:
    """The page and the answers that it and other readers ask for."""

    def __init__(self, sampler: Sampler) -> None:
        self.sampler = sampler

    async def page(self, request: Request) -> Answer:
        """The source of the live page's data."""
        return Answer(200, PAGE, "text/html; charset=utf-8")

    async def now(self, request: Request) -> Answer:
        """The last second."""
        return Answer(200, self.sampler.now, JSON)

    async def history(self, request: Request) -> Answer:
        """The last minutes."""
        return Answer(200, self.sampler.history(), JSON)

    async def counts(self, request: Request) -> Answer:
        """This moment, for whoever takes differences."""
        return Answer(200, self.sampler.counts(), JSON)
