"""The families about which versions of the models serve, and how reloads end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from fastqps.telemetry.metrics.source import Source


def version_families(source: Source) -> Iterator[Any]:
    """The versions and reloads of each model. A failed reload stays visible until a later one succeeds."""
    reloads = CounterMetricFamily("fastqps_reloads", "Reloads, and how they ended.", labels=["model", "outcome"])
    for labels, count in source.reload_counts().items():
        reloads.add_metric(labels, count)
    yield reloads
    failed = GaugeMetricFamily("fastqps_reload_failed", "1: the model's last reload failed.", labels=["model"])
    for model, last_failed in source.reload_failed().items():
        failed.add_metric([model], float(last_failed))
    yield failed
    served = GaugeMetricFamily("fastqps_model_info", "Always 1.", labels=["model", "version", "generation"])
    for found in source.versions():
        served.add_metric([found.model, found.version, str(found.generation)], 1)
    yield served
