"""Turns the segment's histograms, 8 steps per power of two, into Prometheus' cumulative ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from prometheus_client.core import HistogramMetricFamily

from fastqps._core import Histogram, histogram_upper

BUCKETS = 320
Buckets = npt.NDArray[np.uint64]


class Edges:
    """Chosen upper edges of the segment's histograms. ``scale``: from the recorded unit to the shown one."""

    def __init__(self, lowest: int, highest: int, per_octave: int, scale: float, integers: bool = False) -> None:
        wanted = {lowest * 2**k * (per_octave + j) // per_octave for k in range(64) for j in range(per_octave)}
        upper = {histogram_upper(i): i for i in range(BUCKETS)}
        chosen = sorted(edge for edge in wanted if edge <= highest and edge in upper)
        self._index = np.array([upper[edge] for edge in chosen])
        # An edge is exclusive in the segment and inclusive here: for whole numbers that is the number before it.
        self._names = [str(edge - 1) if integers else repr(float(f"{edge * scale:.6g}")) for edge in chosen]

    def cumulative(self, buckets: Buckets, count: int) -> list[tuple[str, float]]:
        """(edge, observations up to it) as Prometheus wants them."""
        sums = np.cumsum(buckets)[self._index]
        return [*zip(self._names, sums.astype(float).tolist(), strict=True), ("+Inf", float(count))]


@dataclass
class Merged:
    """One histogram over several processes."""

    buckets: Buckets
    sum: int = 0

    @classmethod
    def of(cls, parts: Iterable[Histogram]) -> Merged:
        merged = cls(np.zeros(BUCKETS, dtype=np.uint64))
        for part in parts:
            merged.buckets = merged.buckets + part.buckets
            merged.sum += part.sum
        return merged

    def add_to(self, family: HistogramMetricFamily, labels: Sequence[str], edges: Edges, scale: float) -> None:
        """Adds one series. Its count is the sum of the buckets, because ``count`` may differ by a record."""
        count = int(self.buckets.sum())
        family.add_metric(labels, edges.cumulative(self.buckets, count), sum_value=self.sum * scale)
