"""The distribution of the observations between two readings of a histogram."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fastqps._core import histogram_upper
from fastqps.telemetry.live.counts import Histogram
from fastqps.telemetry.metrics.families import BUCKETS

_UPPER = np.array([float(histogram_upper(i)) for i in range(BUCKETS)])
_LOWER = np.concatenate(([0.0], _UPPER[:-1]))
_QUANTILES = (0.5, 0.9, 0.95, 0.99)


@dataclass(frozen=True)
class Spread:
    """Mean and percentiles of ``count`` observations. Percentiles are exact to 12.5 %. None: nothing was observed."""

    count: int = 0
    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None


def spread(before: Histogram, after: Histogram, scale: float = 1.0) -> Spread:
    """``scale``: from the histogram's unit to the result's."""
    # One process counts and another reads, so a value that seems to shrink was read a moment too early.
    buckets = np.maximum(_dense(after) - _dense(before), 0)
    count, reached = int(buckets.sum()), np.cumsum(buckets)
    if not count:
        return Spread()

    def quantile(q: float) -> float:
        """A quantile in µs, in proportion within its bucket."""
        i = int(np.searchsorted(reached, q * count, side="left"))
        share = (q * count - (reached[i - 1] if i else 0)) / buckets[i]
        return float(scale * (_LOWER[i] + (_UPPER[i] - _LOWER[i]) * share))

    return Spread(count, scale * max(0, after["sum"] - before["sum"]) / count, *map(quantile, _QUANTILES))


def _dense(histogram: Histogram) -> npt.NDArray[np.int64]:
    buckets = np.zeros(BUCKETS, dtype=np.int64)
    for index, count in histogram["buckets"]:
        buckets[index] = count
    return buckets
