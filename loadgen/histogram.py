"""Histograms of nanoseconds in HdrHistogram's layout (3 digits, up to 1 h), read with numpy: the engine fills them.

2048 counts for the values below 2048 ns, then 1024 for every further power of two: what is known of a value is known
within 1/1000 of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from loadgen._native import Histogram as Recorded

Counts = NDArray[np.uint64]
HIGHEST_NS = 3_600_000_000_000
LENGTH = 33 * 1024
PERCENTILES = {"p50": 50.0, "p75": 75.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}
_SAMPLES_BEYOND = 10  # a percentile with fewer samples beyond it says little
_TICKS_PER_HALF = 5  # as many points in the spectrum each time the distance to 100 % halves

_index = np.arange(LENGTH, dtype=np.int64)
_power = np.maximum((_index >> 10) - 1, 0)
LOWEST_NS: NDArray[np.int64] = np.where(_index < 1024, _index, (_index & 1023) + 1024) << _power
HIGHEST_OF_NS: NDArray[np.int64] = LOWEST_NS + (np.int64(1) << _power) - 1


@dataclass(frozen=True)
class Histogram:
    """Counts of values, with the exact sum, largest and smallest beside them."""

    counts: Counts
    count: int
    sum_ns: int
    max_ns: int
    min_ns: int

    @classmethod
    def of(cls, recorded: Recorded) -> Histogram:
        """A copy of the engine's."""
        return cls(recorded.counts, recorded.count, recorded.sum_ns, recorded.max_ns, recorded.min_ns)

    @property
    def mean_ns(self) -> float:
        """0 if there are no values."""
        return self.sum_ns / self.count if self.count else 0.0

    def percentile_ns(self, percentile: float) -> int:
        """The highest value that counts where the percentile falls, as in HdrHistogram; 0 if there are no values."""
        return int(self._percentiles_ns([percentile])[0])

    def summary_us(self) -> dict[str, Any]:
        """The summary for results. ``too_few``: percentiles that have fewer than 10 samples beyond them."""
        values = self._percentiles_ns(list(PERCENTILES.values()))
        summary: dict[str, Any] = {name: us(value) for name, value in zip(PERCENTILES, values, strict=True)}
        summary |= {"max": us(self.max_ns), "mean": us(self.mean_ns), "count": self.count}
        beyond = {name: self.count * (100 - percentile) / 100 for name, percentile in PERCENTILES.items()}
        summary["too_few"] = [name for name, samples in beyond.items() if samples < _SAMPLES_BEYOND - 1e-6]
        return summary

    def spectrum_us(self) -> list[list[float]]:
        """[percentile, µs] from 0 to 100, closer together towards the end. The last one below 100 % has at least one
        sample beyond it."""
        percentiles, half = [], 50.0
        while half * 2 / 100 * self.count >= 1:
            percentiles += [100 - half * 2 + half * tick / _TICKS_PER_HALF for tick in range(_TICKS_PER_HALF)]
            half /= 2
        known = [*(p for p in percentiles if (100 - p) / 100 * self.count >= 1), 100.0] if self.count else []
        return [[p, us(value)] for p, value in zip(known, self._percentiles_ns(known), strict=True)]

    def _percentiles_ns(self, percentiles: Sequence[float]) -> NDArray[np.int64]:
        if self.count == 0:
            return np.zeros(len(percentiles), dtype=np.int64)
        ranks = np.ceil(np.asarray(percentiles) / 100 * self.count - 1e-9)
        places = np.minimum(np.searchsorted(np.cumsum(self.counts), np.maximum(ranks, 1)), LENGTH - 1)
        return np.clip(HIGHEST_OF_NS[places], self.min_ns, self.max_ns)


def sparse(indexes: NDArray[np.uint32], counts: Counts) -> Histogram:
    """A histogram from places and their counts; sum, largest and smallest are as exact as the layout."""
    full = np.zeros(LENGTH, dtype=np.uint64)
    np.add.at(full, indexes, counts)  # a place may come several times
    n = int(counts.sum())
    if n == 0:
        return Histogram(full, 0, 0, 0, 0)
    middles = LOWEST_NS[indexes] / 2 + HIGHEST_OF_NS[indexes] / 2
    return Histogram(
        full, n, round(float(middles @ counts)), int(HIGHEST_OF_NS[indexes].max()), int(LOWEST_NS[indexes].min())
    )


def us(ns: float) -> float:
    """Microseconds with the nanoseconds behind the point."""
    return round(float(ns) / 1e3, 3)
