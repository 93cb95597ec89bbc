"""A running server, as its live page sees it."""

from __future__ import annotations

from typing import Protocol

from fastqps.process.readiness import Readiness
from fastqps.telemetry.metrics.source import Source


class Seen(Source, Protocol):
    """A server's counters, and other knowledge of it."""

    def readiness(self) -> Readiness:
        """Whether the server serves, and why not."""
