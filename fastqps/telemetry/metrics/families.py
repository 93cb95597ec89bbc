"""Families of Prometheus: of a value, or of rows, (the values of the labels, the value); and cumulative histograms of
the segment's, which have 8 steps per power of two."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from fastqps._core import Histogram, histogram_upper

NS = 1e-9
BUCKETS = 320
Buckets = npt.NDArray[np.uint64]
Rows = Iterable[tuple[str | Sequence[str], float]]


def counter(name: str, what: str, value: float | Rows, *labels: str) -> CounterMetricFamily:
    """``labels``: their names. Where there is one, rows may name its value as it is."""
    family = CounterMetricFamily(f"fastqps_{name}", what, labels=labels)
    _fill(family.add_metric, value)
    return family


def gauge(name: str, what: str, value: float | Rows, *labels: str) -> GaugeMetricFamily:
    """Like ``counter``, for a value that can fall."""
    family = GaugeMetricFamily(f"fastqps_{name}", what, labels=labels)
    _fill(family.add_metric, value)
    return family


def _fill(add: Callable[[Any, float], None], value: float | Rows) -> None:
    for names, number in value if isinstance(value, Iterable) else [((), value)]:
        add([names] if isinstance(names, str) else names, number)


class Edges:
    """Chosen upper edges of the segment's histograms. ``scale``: from the recorded unit to the shown one."""

    def __init__(self, lowest: int, highest: int, per_octave: int, scale: float, integers: bool = False) -> None:
        self.scale = scale
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


def histogram(
    name: str, what: str, rows: Iterable[tuple[str | Sequence[str], Merged]], edges: Edges, *labels: str
) -> HistogramMetricFamily:
    """Like ``counter``. A series' count is the sum of its buckets, because ``count`` may differ by a record."""
    family = HistogramMetricFamily(f"fastqps_{name}", what, labels=labels)
    for names, merged in rows:
        buckets = edges.cumulative(merged.buckets, int(merged.buckets.sum()))
        family.add_metric([names] if isinstance(names, str) else names, buckets, sum_value=merged.sum * edges.scale)
    return family
