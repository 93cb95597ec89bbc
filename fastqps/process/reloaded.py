"""The outcome of a model's reload, as the supervisor reports it to the admin port."""

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
