"""The metrics of an edge's upstreams. Of any other server there are none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client.core import HistogramMetricFamily

from fastqps._core import UPSTREAM_STATES
from fastqps.telemetry.metrics.families import NS, counter, gauge
from fastqps.telemetry.metrics.histograms import Edges, Merged
from fastqps.telemetry.metrics.source import Source
from fastqps.telemetry.metrics.upstream_rows import EVENTS, HOP, UpstreamCounts, upstreams


def upstream_families(source: Source, counts: UpstreamCounts, edges: Edges) -> Iterator[Any]:
    """All families. ``edges``: of times."""
    sizes = source.segment.sizes
    if not sizes.upstreams:
        return
    yield from _gauges(source)
    counts.sample(source)
    items = [((name, event), total[event]) for name, total in counts.totals.items() for event in EVENTS]
    yield counter("upstream_items", "Items by what became of them.", items, "upstream", "event")
    for metric, key, what in (
        ("connects", "connects", "Connections made."),
        ("sent_bytes", "bytes_out", "Bytes to the server."),
        ("received_bytes", "bytes_in", "Bytes from the server."),
    ):
        values = [(name, total[key]) for name, total in counts.totals.items()]
        yield counter(f"upstream_{metric}", what, values, "upstream")
    totals = [source.segment.upstream_totals(dispatcher) for dispatcher in range(sizes.dispatchers)]
    yield counter("upstream_resent", "Items that were sent once more.", sum(each.resent for each in totals))
    unroutable = sum(each.unroutable for each in totals)
    yield counter("upstream_unroutable", "Items that no server was left for.", unroutable)
    what = "Where a sample of the items spends time: not in the server, in its queue, on its device."
    spent = HistogramMetricFamily("fastqps_upstream_duration_seconds", what, labels=["part"])
    for part in HOP:
        Merged.of(getattr(each, part) for each in totals).add_to(spent, [part], edges, NS)
    yield spent


def _gauges(source: Source) -> Iterator[Any]:
    rows = upstreams(source)
    states = [((each.name, state), each.states[state]) for each in rows for state in UPSTREAM_STATES]
    what = "Dispatchers that see the server in this state."
    yield gauge("upstream_state", what, states, "upstream", "state")
    for metric, attribute, scale, what in (
        ("in_flight", "in_flight", 1, "Items that it has not answered."),
        ("window", "window", 1, "Items that it may have."),
        ("utilization_ratio", "utilization", 1, "Its saturation, as it says."),
        ("rtt_seconds", "rtt_ns", NS, "From an echo to its answer."),
    ):
        values = [(each.name, getattr(each, attribute) * scale) for each in rows]
        yield gauge(f"upstream_{metric}", what, values, "upstream")
