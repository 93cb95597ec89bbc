"""The limits of a served model, which the admin port shows and changes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """The limits of each dispatcher of a model. ``running`` is None unless it generates, ``items`` if it does."""

    running: int | None  # sequences of a lane
    items: int | None  # requests of a step
    lanes: int  # that take requests
    async_steps: bool


@dataclass(frozen=True)
class ModelLimits:
    """The limits of a served model: those of ``now``, and those with which the server was started or that it chose."""

    model: str
    now: Limits
    most: Limits
