"""The metric families, and the page that shows them.

Each number has one writer, the process that it is about; a scrape adds the processes up. Histograms keep 8 steps per
power of two; a scrape shows two of them, on edges where both agree, so no count is a guess.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from fastqps._core import CLASSES, COUNTERS, IDLES, METHODS, REJECTS, STAGES, TRANSPORT_COUNTERS, ProcessStats, now_ns
from fastqps.errors import FAULTS, StatusCode
from fastqps.telemetry.metrics.families import NS, Edges, Merged, counter, gauge, histogram
from fastqps.telemetry.metrics.meter import WINDOW_S, FillWindow, LoadMeter
from fastqps.telemetry.metrics.server_families import (
    canary_families,
    credential_families,
    process_families,
    saturation_families,
    version_families,
)
from fastqps.telemetry.metrics.source import Source
from fastqps.telemetry.metrics.tenants import TenantMeter
from fastqps.telemetry.metrics.upstreams import UpstreamCounts, upstream_families

# These series exist from the start, with the value 0. A counter that appears with its first failure shows no increase,
# so that failure would raise no alarm.
NATIVE_METHODS = ("Predict", "PredictBatch", "PredictStream", "Generate")  # those of other protocols once they are used
SHOWN_CODES = {"OK", *FAULTS}
_PRIORITIES = CLASSES[:3]  # suspects are shown once there have been some


class Metrics:
    """The collector of all metrics, which reads them on demand. ``page`` is the body of the HTTP answer."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.meter = LoadMeter(source)
        self._fill = FillWindow(source)
        self._tenants = TenantMeter(source)
        self._upstreams = UpstreamCounts()
        self._time_edges = Edges(1 << 10, 1 << 36, 2, NS)
        self._count_edges = Edges(2, 1 << 21, 1, 1, integers=True)
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def sample(self) -> None:
        """Samples the values that have a window of some seconds. Call it once a second."""
        self._fill.sample()
        self._tenants.sample()
        self._upstreams.sample(self._source)

    def page(self, accept: str) -> tuple[bytes, str]:
        """(body, content type): OpenMetrics where ``accept`` asks for it, else Prometheus' text format."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def collect(self) -> Iterator[Any]:
        """All families. Called by the registry."""
        segment = self._source.segment
        sizes = segment.sizes
        stats = [segment.stats(i) for i in range(sizes.doors + sizes.dispatchers)]
        doors, dispatchers = stats[: sizes.doors], stats[sizes.doors :]
        yield from self._requests(doors)
        yield from self._durations(doors, dispatchers)
        yield from self._queues(dispatchers)
        yield from self._tenants.families()
        yield from self._held()
        yield from self._batches(dispatchers)
        yield from self._generation(dispatchers)
        yield from self._devices(doors, dispatchers)
        yield from upstream_families(self._source, self._upstreams, self._time_edges)
        yield from _counters(stats)
        yield from _transport(doors)
        yield from credential_families(self._source, doors)
        yield from saturation_families(self._source, self.meter)
        yield from process_families(self._source, stats)
        yield from version_families(self._source)
        yield from canary_families(self._source)

    def _requests(self, doors: list[ProcessStats]) -> Iterator[Any]:
        by_method = np.sum([door.requests for door in doors], axis=0)
        by_item = np.sum([door.items for door in doors], axis=0)
        requests, items = [], []
        for m, model in enumerate(self._source.models):
            for k, method in enumerate(METHODS):
                # Calls that the transport answers itself (health, unknown methods) belong to no model.
                named = "" if method == "other" else model
                for c, code in enumerate(StatusCode.__members__):
                    if by_method[m, k, c] or (c == 0 and method in NATIVE_METHODS):
                        requests.append(((named, method, code), float(by_method[m, k, c])))
            for c, code in enumerate(StatusCode.__members__):
                if by_item[m, c] or code in SHOWN_CODES:
                    items.append(((model, code), float(by_item[m, c])))
        yield counter("requests", "Calls answered.", requests, "model", "method", "code")
        yield counter("items", "Items answered; a batch has many.", items, "model", "code")

    def _durations(self, doors: list[ProcessStats], dispatchers: list[ProcessStats]) -> Iterator[Any]:
        requests = [
            ((model, method), Merged.of(door.request[m][k] for door in doors))
            for m, model in enumerate(self._source.models)
            for k, method in enumerate(METHODS[:-1])  # all but "other"
            if method in NATIVE_METHODS or any(door.requests[m, k].any() for door in doors)
        ]
        what = "From a call's headers to its answer."
        yield histogram("request_duration_seconds", what, requests, self._time_edges, "model", "method")
        processes = (*doors, *dispatchers)
        stages = [(stage, Merged.of(process.stage[stage] for process in processes)) for stage in STAGES]
        yield histogram("stage_duration_seconds", "Where items spend time.", stages, self._time_edges, "stage")

    def _queues(self, dispatchers: list[ProcessStats]) -> Iterator[Any]:
        """The queues of each model by class: requests, the age of the oldest, and the waits that ended."""
        source, now = self._source, now_ns()
        waiting, oldest, items, ages, waits = [], [], [], [], []
        for m, model in enumerate(source.models):
            queues = source.segment.waiting(source.route_of(m))
            age_s = [max(0, now - since) * NS if since else 0.0 for _, since in queues]
            waiting.append((model, sum(count for count, _ in queues)))
            oldest.append((model, max(age_s)))
            own = [stats for d, stats in enumerate(dispatchers) if source.model_of(d) == m]
            for kind, (count, _), age in zip(CLASSES, queues, age_s, strict=True):
                merged = Merged.of(stats.class_wait[kind] for stats in own)
                if kind in _PRIORITIES or count or merged.buckets.any():
                    items.append(((model, kind), count))
                    ages.append(((model, kind), age))
                    waits.append(((model, kind), merged))
        yield gauge("requests_waiting", "Items that wait for a dispatcher.", waiting, "model")
        yield gauge("queue_oldest_age_seconds", "Age of the oldest of them.", oldest, "model")
        yield gauge("queue_items", "Items that wait, by class.", items, "model", "class")
        yield gauge("class_oldest_age_seconds", "Age of the oldest of each class.", ages, "model", "class")
        what = "How long items of a class waited."
        yield histogram("class_wait_seconds", what, waits, self._time_edges, "model", "class")

    def _held(self) -> Iterator[Any]:
        segment, lines = self._source.segment, self._source.segment.doors()
        waits = zip(self._source.models, self.meter.load.queue_wait_s, strict=True)
        yield gauge("queue_wait_p95_seconds", f"Of the items of the last {WINDOW_S} s.", waits, "model")
        yield gauge("requests_running", "Items that a dispatcher holds.", sum(d.running for d in lines))
        yield gauge("slots", "Items that the front doors can hold.", segment.sizes.doors * segment.sizes.slots)
        yield gauge("slots_used", "Items that they hold.", sum(d.slots_used for d in lines))

    def _batches(self, dispatchers: list[ProcessStats]) -> Iterator[Any]:
        models = self._source.models
        own = [[s for d, s in enumerate(dispatchers) if self._source.model_of(d) == m] for m in range(len(models))]
        for name, what in (("batch_items", "Items in a batch."), ("batch_tokens", "Tokens in a batch.")):
            rows = [(model, Merged.of(getattr(s, name) for s in of)) for model, of in zip(models, own, strict=True)]
            yield histogram(name, what, rows, self._count_edges, "model")
        what = f"Tokens in the batches of the last {WINDOW_S} s, divided by their room."
        ratios = zip(self._source.models, self._fill.ratios(), strict=True)
        yield gauge("batch_fill_ratio", what, [(model, ratio) for model, ratio in ratios if ratio is not None], "model")

    def _generation(self, dispatchers: list[ProcessStats]) -> Iterator[Any]:
        segment, lines = self._source.segment, self._source.segment.dispatchers()
        made, slots, used = [], [], []
        for m, model in enumerate(self._source.models):
            own = {d: serves for d, serves in self._source.filled().items() if self._source.model_of(d) == m}
            per_dispatcher = segment.route(self._source.route_of(m)).cache_slots
            if per_dispatcher:  # it generates
                ever = (d for d in range(len(dispatchers)) if self._source.model_of(d) == m)
                made.append((model, sum(dispatchers[d].counters["generated_tokens"] for d in ever)))
                slots.append((model, per_dispatcher * len(own)))
                used.append((model, sum(lines[d].running for d, serves in own.items() if serves)))
        yield counter("generated_tokens", "Tokens generated.", made, "model")
        yield gauge("cache_slots", "Sequences that can run at a time.", slots, "model")
        yield gauge("cache_slots_used", "Sequences that run.", used, "model")

    def _devices(self, doors: list[ProcessStats], dispatchers: list[ProcessStats]) -> Iterator[Any]:
        source, usage = self._source, self.meter.usage
        lines = source.segment.dispatchers()
        # After the end of one its counters stay.
        ever = {str(d): stats for d, stats in enumerate(dispatchers) if lines[d].epoch}
        device = {d: source.devices[source.device_of(int(d))] for d in ever}
        for name, what, key, scale in (
            ("device_busy_seconds", "Time in which steps ran.", "busy_ns", NS),
            ("steps", "Steps that ran.", "steps", 1),
            ("step_items", "Items in them.", "step_items", 1),
        ):
            values = [((device[d], d), stats.counters[key] * scale) for d, stats in ever.items()]
            yield counter(name, what, values, "device", "dispatcher")
        idle = [((device[d], d, why), stats.idle_ns[why] * NS) for d, stats in ever.items() for why in IDLES]
        what = "Time in which none ran, and why."
        yield counter("device_idle_seconds", what, idle, "device", "dispatcher", "reason")
        info = [((d, source.models[source.model_of(int(d))]), 1) for d in ever]
        yield gauge("dispatcher_info", "Always 1.", info, "dispatcher", "model")
        source.busy.update()
        active = [(name, source.busy.busy_ns(i) * NS) for i, name in enumerate(source.devices)]
        yield counter("device_active_seconds", "Time in which a step of any dispatcher ran.", active, "device")
        for role, processes in (("dispatcher", ever), ("frontdoor", {str(i): door for i, door in enumerate(doors)})):
            busy = [(i, stats.counters["awake_ns"] * NS) for i, stats in processes.items()]
            yield counter(f"{role}_busy_seconds", "Time in which its loop did not sleep.", busy, role)
        yield counter("cpu_seconds", "CPU time of the processes.", usage.cpu_s.items(), "role")
        yield gauge("memory_bytes", "Memory: private by role, and shared by all.", usage.memory().items(), "role")


def _transport(doors: list[ProcessStats]) -> Iterator[Any]:
    rejected = [(reason, sum(door.rejected[reason] for door in doors)) for reason in REJECTS]
    yield counter("rejected", "Items refused, and why.", rejected, "reason")
    expired = [(stage, sum(door.expired[stage] for door in doors)) for stage in STAGES]
    yield counter("expired", "Items whose time passed, and in which stage.", expired, "stage")
    counts = [(str(i), event, door.transport[event]) for i, door in enumerate(doors) for event in TRANSPORT_COUNTERS]
    for name, what, bytes_ in (
        ("received_bytes", "Bytes from clients.", "bytes_in"),
        ("sent_bytes", "Bytes to clients.", "bytes_out"),
    ):
        yield counter(name, what, [(door, count) for door, event, count in counts if event == bytes_], "frontdoor")
    others = [
        ((door, event), count)
        for door, event, count in counts
        if not event.endswith("xx") and not event.startswith("bytes_") and event != "unauthenticated"
    ]
    yield counter("transport_events", "Events of the HTTP layer.", others, "frontdoor", "event")
    http = [((door, *event.split("_")), count) for door, event, count in counts if event.endswith("xx")]
    what = "Plain HTTP responses by protocol and class of status."
    yield counter("http_responses", what, http, "frontdoor", "protocol", "status")


def _counters(stats: list[ProcessStats]) -> Iterator[Any]:
    """The counters without labels, summed over all processes: those with a metric in csrc/core/layout/stats.h."""
    for row in COUNTERS:
        if row.metric:
            yield counter(row.metric, row.help, sum(process.counters[row.name] for process in stats) * row.scale)
