"""Whoever keeps seats filled can also empty those that were never filled."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from fastqps.supervisor.workers.pool import Crew


class FakeSeat:
    """As after a reload that failed before its dispatchers were started."""

    child = None
    vacated = False

    def vacate(self) -> None:
        self.vacated = True


def test_seats_that_were_never_filled() -> None:
    """Where no process could be started for a holder of weights, nobody is there to leave, and nothing breaks."""
    nothing = cast(Any, None)
    crew = Crew(-1, nothing, nothing, lambda: None)
    seats = [FakeSeat(), FakeSeat()]
    assert asyncio.run(crew.empty(cast(Any, seats), 0.1)) == ""
    assert all(seat.vacated for seat in seats)
