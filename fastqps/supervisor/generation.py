"""One version of a served model, and the route on which it answers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fastqps._core import GENERATIONS
from fastqps.models import ModelCard
from fastqps.models.files.deciding_files import shape_of
from fastqps.supervisor.plan import Plan
from fastqps.supervisor.room import Room


@dataclass(frozen=True)
class Generation:
    """``number`` grows with every reload of the model. Successive generations use different routes: while one serves,
    the next one can warm up, or the previous one finish its requests."""

    model: int
    number: int
    card: ModelCard
    room: Room
    shape: str = ""  # of its files as they were loaded; they may be others by now

    @property
    def route(self) -> int:
        """Its index in the segment."""
        return int(self.model * GENERATIONS + self.number % GENERATIONS)

    @property
    def name(self) -> str:
        """Its name and version, as clients see them."""
        return f"{self.card.name}@{self.card.version}"


def first_generations(server: Plan) -> list[Generation]:
    """The generations that the server starts with, one for each model."""
    return [
        Generation(i, 0, card, room, shape_of(Path(card.path)))
        for i, (card, room) in enumerate(zip(server.cards, server.rooms, strict=True))
    ]
