"""Served models as the supervisor reports them to the admin port: their limits, versions and reloads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fastqps.errors import FastqpsError

OutcomeName = Literal["reloaded", "unchanged", "failed"]
OUTCOMES: tuple[OutcomeName, ...] = ("reloaded", "unchanged", "failed")


@dataclass(frozen=True)
class Reloaded:
    """The outcome of one reload. ``version`` serves now; ``before`` served when it began."""

    model: str
    outcome: OutcomeName
    version: str
    before: str
    reason: str  # why it failed, or a remark on its success
    took_s: float


@dataclass(frozen=True)
class ServedVersion:
    """The serving version of a model."""

    model: str
    version: str
    generation: int  # grows with every reload


class ReloadRefused(FastqpsError):
    """A reload cannot start now: another one runs, or the server is not serving."""


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
