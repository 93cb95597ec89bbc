"""Families of Prometheus from a value, or from rows: (the values of the labels, the value)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

NS = 1e-9
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
