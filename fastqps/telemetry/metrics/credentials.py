"""The metric families of certificates and tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from fastqps._core import ProcessStats
from fastqps.telemetry.metrics.source import Source


def credential_families(source: Source, doors: list[ProcessStats]) -> Iterator[Any]:
    """Metrics of credentials. Those of TLS are left out without TLS, since an expiry of 0 would raise an alarm."""
    refused = sum(door.transport["unauthenticated"] for door in doors)
    yield CounterMetricFamily("fastqps_unauthenticated", "Calls without one of the tokens.", value=refused)
    expires = GaugeMetricFamily(
        "fastqps_tls_certificate_expiry_timestamp_seconds", "When the certificate expires, since 1970."
    )
    reloads = CounterMetricFamily(
        "fastqps_tls_reloads", "Times that TLS files had changed: ok, taken over; failed, useless.", labels=["outcome"]
    )
    refused_files = GaugeMetricFamily(
        "fastqps_credentials_refused", "1: the files that lie there now are useless.", labels=["files"]
    )
    for files, useless in source.credentials.refused.items():
        refused_files.add_metric([files], float(useless))
    if source.credentials.expires_s:
        expires.add_metric([], source.credentials.expires_s)
        for outcome, count in source.credentials.reloads.items():
            reloads.add_metric([outcome], count)
    yield from (expires, reloads, refused_files)
