"""The distribution of the observations between two readings of a histogram."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fastqps._core import histogram_upper
from fastqps.telemetry.live.counts import Histogram
from fastqps.telemetry.metrics.histograms import BUCKETS

_UPPER = np.array([float(histogram_upper(i)) for i in range(BUCKETS)])
_LOWER = np.concatenate(([0.0], _UPPER[:-1]))


class Spread:
    """The distribution of the observations between ``before`` and ``after``, in the histogram's unit."""

    def __init__(self, before: Histogram, after: Histogram) -> None:
        # One process counts and another reads, so a value that seems to shrink was read a moment too early.
        self._buckets = np.maximum(_dense(after) - _dense(before), 0)
        self.count = int(self._buckets.sum())
        self._sum = max(0, after["sum"] - before["sum"])

    @property
    def mean(self) -> float | None:
        """None: nothing was observed."""
        return self._sum / self.count if self.count else None

    def quantile(self, q: float) -> float | None:
        """Within its bucket in proportion: known within 12.5 %. None: nothing was observed."""
        if not self.count:
            return None
        reached = np.cumsum(self._buckets)
        rank = q * self.count
        i = int(np.searchsorted(reached, rank, side="left"))
        below = float(reached[i - 1]) if i else 0.0
        return float(_LOWER[i] + (_UPPER[i] - _LOWER[i]) * (rank - below) / float(self._buckets[i]))


def _dense(found: Histogram) -> npt.NDArray[np.int64]:
    buckets = np.zeros(BUCKETS, dtype=np.int64)
    for index, count in found["buckets"]:
        buckets[index] = count
    return buckets
