"""95 % intervals for percentiles and for means; and whether a series of samples grows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any

import numpy as np

from fastqps.bench.results.point import Point
from loadgen.statistics import line, t95

_Z = 1.96
BLOCKS = 10  # of a run's seconds: neighbouring seconds are alike, blocks of them hardly are


def mean_interval(values: Sequence[float]) -> list[float] | None:
    """95 % interval of the mean; None for fewer than two values."""
    if len(values) < 2:
        return None
    half = t95(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return [fmean(values) - half, fmean(values) + half]


def blocks(values: Sequence[float]) -> list[float]:
    """Means of at most ``BLOCKS`` blocks of neighbouring values, without a rest at the end."""
    size = max(1, len(values) // BLOCKS)
    return [fmean(values[at : at + size]) for at in range(0, len(values) - size + 1, size)]


def rate_interval(per_second: Sequence[float]) -> list[float] | None:
    """The interval of a run's rate, from means of blocks of its whole seconds."""
    interval = mean_interval(blocks(per_second)) if len(per_second) >= 4 else None
    return None if interval is None else [max(0.0, interval[0]), interval[1]]


def p99_interval_us(point: Point) -> list[float] | None:
    """The interval of the response time's p99, by how many of n answers lie below a value (binomial). None if p99 is.

    It says how sure p99 is for independent answers; those of a queue are not quite.
    """
    n = point.response_time_us.get("count") or 0.0
    spectrum = point.spectrum.get("response")
    if point.response_time_us.get("p99") is None or not spectrum or n < 1:
        return None
    half = 100 * _Z * math.sqrt(0.99 * 0.01 / n)
    return [_at(spectrum, 99 - half), _at(spectrum, min(100.0, 99 + half))]


def _at(spectrum: Sequence[Sequence[float]], percentile: float) -> float:
    """µs at a percentile, in proportion between the points of the spectrum."""
    percentiles, times_us = zip(*spectrum, strict=True)
    return float(np.interp(percentile, percentiles, times_us))


SAMPLES_MIN = 10
DRIFT_BLOCKS = 30  # neighbouring samples are alike: means of blocks are nearer to independent


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
        """The entry of ``Result.extra``."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.name} grew by {100 * (self.growth or 0.0):.0f} % while measured"


def drift(name: str, unit: str, series: Sequence[tuple[float, float]], least: float) -> Drift:
    """The drift of (seconds, value) samples. Growth below ``least`` does not count."""
    if len(series) < SAMPLES_MIN:
        return Drift(name, unit, None, None, None, None, None, False)
    size = -(-len(series) // DRIFT_BLOCKS)
    parts = [series[at : at + size] for at in range(0, len(series), size)]
    t = [fmean(s for s, _ in part) for part in parts]
    y = [fmean(value for _, value in part) for part in parts]
    through = line(t, y)
    first, last = (through.value(series[k][0]) for k in (0, -1))
    growth = (last - first) / first if first > 0 else None
    grows = through.slope > through.half and growth is not None and growth > least
    interval = [3600 * (through.slope - through.half), 3600 * (through.slope + through.half)]
    return Drift(name, unit, first, last, growth, 3600 * through.slope, interval, grows)
