"""Whether a series of samples grows: a line through it, with an interval for its slope."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from loadgen.statistics import line

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
    through = line(t, y)
    first, last = (through.value(series[k][0]) for k in (0, -1))
    growth = (last - first) / first if first > 0 else None
    grows = through.slope > through.half and growth is not None and growth > least
    interval = [3600 * (through.slope - through.half), 3600 * (through.slope + through.half)]
    return Drift(name, unit, first, last, growth, 3600 * through.slope, interval, grows)
