"""The metric families of what waits for a dispatcher, by class: how much, for how long already, and how long it was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily

from fastqps._core import CLASSES, ProcessStats, now_ns
from fastqps.telemetry.metrics.histograms import Edges, Merged
from fastqps.telemetry.metrics.source import Source

_NS = 1e-9
_PRIORITIES = CLASSES[:3]  # suspects are shown once there have been some


def queue_families(source: Source, dispatchers: Sequence[ProcessStats], edges: Edges) -> Iterator[Any]:
    """``edges``: of the histogram, in nanoseconds."""
    labels = ["model", "class"]
    waiting = GaugeMetricFamily("fastqps_requests_waiting", "Items that wait for a dispatcher.", labels=["model"])
    oldest = GaugeMetricFamily("fastqps_queue_oldest_age_seconds", "Age of the oldest of them.", labels=["model"])
    items = GaugeMetricFamily("fastqps_queue_items", "Items that wait, by class.", labels=labels)
    ages = GaugeMetricFamily("fastqps_class_oldest_age_seconds", "Age of the oldest of each class.", labels=labels)
    waits = HistogramMetricFamily("fastqps_class_wait_seconds", "How long items of a class waited.", labels=labels)
    now = now_ns()
    for m, model in enumerate(source.models):
        found = source.segment.waiting(source.route_of(m))
        age_s = [max(0, now - since) * _NS if since else 0.0 for _, since in found]
        waiting.add_metric([model], sum(count for count, _ in found))
        oldest.add_metric([model], max(age_s))
        own = [stats for d, stats in enumerate(dispatchers) if source.model_of(d) == m]
        for kind, (count, _), age in zip(CLASSES, found, age_s, strict=True):
            merged = Merged.of(stats.class_wait[kind] for stats in own)
            if kind not in _PRIORITIES and not count and not merged.buckets.any():
                continue
            items.add_metric([model, kind], count)
            ages.add_metric([model, kind], age)
            merged.add_to(waits, [model, kind], edges, _NS)
    yield from (waiting, oldest, items, ages, waits)
