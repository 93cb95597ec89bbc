"""How the reload of a model ended: what the supervisor says, and the admin port answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fastqps.errors import FastqpsError

OutcomeName = Literal["reloaded", "unchanged", "failed"]
OUTCOMES: tuple[OutcomeName, ...] = ("reloaded", "unchanged", "failed")


@dataclass(frozen=True)
class Reloaded:
    """``version``: what serves now; ``before``: what served when it began."""

    model: str
    outcome: OutcomeName
    version: str
    before: str
    reason: str  # why it failed; else what there is to say
    took_s: float


@dataclass(frozen=True)
class ServedVersion:
    """The version of a model that serves now."""

    model: str
    version: str
    generation: int  # grows with every reload


class ReloadRefused(FastqpsError):
    """Not now: another one runs, or the server is not serving."""
