"""The metrics of an edge's upstreams. Of any other server there are none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from fastqps._core import UPSTREAM_STATES
from fastqps.telemetry.metrics.histograms import Edges, Merged
from fastqps.telemetry.metrics.source import Source
from fastqps.telemetry.metrics.upstream_rows import EVENTS, UpstreamCounts, upstreams

_NS = 1e-9
_PARTS = ("wire", "queue", "device")


def upstream_families(source: Source, counts: UpstreamCounts, edges: Edges) -> Iterator[Any]:
    """All families. ``edges``: of times."""
    sizes = source.segment.sizes
    if not sizes.upstreams:
        return
    yield from _gauges(source)
    counts.sample(source)
    items = CounterMetricFamily("fastqps_upstream_items", "Items by what became of them.", labels=["upstream", "event"])
    for name, total in counts.totals.items():
        for event in EVENTS:
            items.add_metric([name, event], total[event])
    yield items
    for metric, counter, what in (
        ("connects", "connects", "Connections made."),
        ("sent_bytes", "bytes_out", "Bytes to the server."),
        ("received_bytes", "bytes_in", "Bytes from the server."),
    ):
        family = CounterMetricFamily(f"fastqps_upstream_{metric}", what, labels=["upstream"])
        for name, total in counts.totals.items():
            family.add_metric([name], total[counter])
        yield family
    totals = [source.segment.upstream_totals(dispatcher) for dispatcher in range(sizes.dispatchers)]
    resent = sum(each.resent for each in totals)
    yield CounterMetricFamily("fastqps_upstream_resent", "Items that were sent once more.", value=resent)
    what = "Items that no server was left for."
    yield CounterMetricFamily("fastqps_upstream_unroutable", what, value=sum(each.unroutable for each in totals))
    what = "Where a sample of the items spends time: not in the server, in its queue, on its device."
    spent = HistogramMetricFamily("fastqps_upstream_duration_seconds", what, labels=["part"])
    for part in _PARTS:
        Merged.of(getattr(each, part) for each in totals).add_to(spent, [part], edges, _NS)
    yield spent


def _gauges(source: Source) -> Iterator[Any]:
    found = upstreams(source)
    what = "Dispatchers that see the server in this state."
    states = GaugeMetricFamily("fastqps_upstream_state", what, labels=["upstream", "state"])
    for each in found:
        for state in UPSTREAM_STATES:
            states.add_metric([each.name, state], each.states[state])
    yield states
    for metric, attribute, scale, what in (
        ("in_flight", "in_flight", 1, "Items that it has not answered."),
        ("window", "window", 1, "Items that it may have."),
        ("utilization_ratio", "utilization", 1, "Its saturation, as it says."),
        ("rtt_seconds", "rtt_ns", _NS, "From an echo to its answer."),
    ):
        family = GaugeMetricFamily(f"fastqps_upstream_{metric}", what, labels=["upstream"])
        for each in found:
            family.add_metric([each.name], getattr(each, attribute) * scale)
        yield family
