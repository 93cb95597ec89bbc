"""``fastqps doctor`` reports what this machine has and lacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "note", "lack"]


@dataclass(frozen=True)
class Finding:
    """One fact. ``note``: works, could be better. ``lack``: serving needs it."""

    name: str
    value: str
    level: Level = "ok"
    advice: str = ""
