"""Percentiles with their intervals, and the rows that are made of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bench.isolation.mix import Ends, Times
from bench.row import Row

_Z = 1.96
Interval = tuple[float, float]


@dataclass(frozen=True)
class Percentile:
    """``interval``: 95 %, from the ranks of ``count`` independent values (binomial), and lower by what the generator
    was late by itself. Where too few values lie beyond the percentile, it ends with the most that they can be."""

    value: float
    interval: Interval
    count: int

    def __str__(self) -> str:
        return f"{self.value / 1e3:.2f} ms ({self.count:,})"


def percentile(values: Times, share: float, most: float, late: float) -> Percentile:
    """``most``: what no value exceeds. ``late``: the part of it that may be the generator's."""
    n = len(values)
    if n == 0:
        return Percentile(most, (0.0, most), 0)
    ordered, half = np.sort(values), _Z * math.sqrt(n * share * (1 - share))
    low, high = math.floor(n * share - half) - 1, math.ceil(n * share + half)
    ends = (float(ordered[low]) if low >= 0 else 0.0, float(ordered[high]) if high < n else most)
    ends = (max(0.0, ends[0] - late), ends[1])
    return Percentile(float(ordered[min(n - 1, math.ceil(n * share) - 1)]), ends, n)


def refused_row(name: str, ends: Ends, accept: float | None = 0) -> Row:
    """The share of calls that were refused or late."""
    note = f"{ends.refused:,} refused, {ends.late:,} late of {ends.count:,}"
    share = 100 * (ends.refused + ends.late) / max(1, ends.count)
    return Row(f"{name}: refused or late", share, "%", accept, at_most=True, note=note)
