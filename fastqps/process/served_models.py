"""What the supervisor reports to the admin port: whether the server serves, and its models' limits, versions and
reloads."""

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


@dataclass(frozen=True)
class Readiness:
    """``reasons``: why it is not ready; empty if it is. ``degraded``: processes that are down while others do their
    work.

    ``hopeless``: roles whose processes all stay down, so that only a restart of the server helps. ``answers``: whether
    requests are served anyway, as by a lame duck.
    """

    reasons: tuple[str, ...]
    degraded: tuple[str, ...]
    hopeless: tuple[str, ...]
    answers: bool
