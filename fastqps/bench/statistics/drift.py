"""Whether a series of samples grows: a line through it, with an interval for its slope."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from fastqps.bench.statistics.intervals import t95

SAMPLES_MIN = 10
BLOCKS = 30  # neighbouring samples are alike: means of blocks are nearer to independent


@dataclass(frozen=True)
class Drift:
    """``slope_per_hour`` with its 95 % interval; ``growth``: of the line over the time looked at, as a share of its
    beginning. ``grows``: surely, and by more than what is worth a word. None: too few samples to say."""

    name: str
    unit: str
    first: float | None
    last: float | None
    growth: float | None
    slope_per_hour: float | None
    interval: list[float] | None
    grows: bool

    def as_json(self) -> dict[str, Any]:
        """For ``Result.extra``."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.name} grew by {100 * (self.growth or 0.0):.0f} % while measured"


def drift(name: str, unit: str, series: Sequence[tuple[float, float]], least: float) -> Drift:
    """The drift of (seconds, value) samples. Growth below ``least`` does not count."""
    if len(series) < SAMPLES_MIN:
        return Drift(name, unit, None, None, None, None, None, False)
    size = -(-len(series) // BLOCKS)
    parts = [series[at : at + size] for at in range(0, len(series), size)]
    t = [fmean(s for s, _ in part) for part in parts]
    y = [fmean(value for _, value in part) for part in parts]
    middle_t, middle_y = fmean(t), fmean(y)
    spread = sum((a - middle_t) ** 2 for a in t)
    slope = sum((a - middle_t) * (b - middle_y) for a, b in zip(t, y, strict=True)) / spread
    rest = sum((b - middle_y - slope * (a - middle_t)) ** 2 for a, b in zip(t, y, strict=True))
    half = t95(len(t) - 2) * math.sqrt(rest / (len(t) - 2) / spread)
    first, last = (middle_y + slope * (series[k][0] - middle_t) for k in (0, -1))
    growth = (last - first) / first if first > 0 else None
    grows = slope - half > 0 and growth is not None and growth > least
    interval = [3600 * (slope - half), 3600 * (slope + half)]
    return Drift(name, unit, first, last, growth, 3600 * slope, interval, grows)
