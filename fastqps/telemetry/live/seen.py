"""A running server, as its live page sees it."""

from __future__ import annotations

from typing import Protocol

from fastqps.process.readiness import Readiness
from fastqps.telemetry.metrics.source import Source


class Seen(Source, Protocol):
    """Its counters, and what is known of it beside them."""

    def readiness(self) -> Readiness:
        """Whether the server serves, and why not."""
