"""What a scrape reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from fastqps.capacity import Capacity


class Source(Protocol):
    """What a scrape reads: the segment, and what only the supervisor knows."""

    segment: Any
    models: Sequence[str]
    device: str  # all of them, for people
    devices: Sequence[str]  # each of them, by its index in the segment
    busy: Any  # _core.BusyUnion
    capacity: Capacity | None  # as measured, if that is known

    def route_of(self, model: int) -> int:
        """The route that answers for a model."""

    def model_of(self, dispatcher: int) -> int:
        """The model that a dispatcher serves."""

    def device_of(self, dispatcher: int) -> int:
        """The device that a dispatcher runs on."""

    def restarts(self) -> dict[str, int]:
        """How often processes were started again, by role."""
