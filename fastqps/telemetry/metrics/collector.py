"""The metric families, and the page that shows them.

Each number has one writer, the process that it is about; a scrape adds the processes up. Histograms keep 8 steps per
power of two; a scrape shows two of them, on edges where both agree, so no count is a guess.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder

from fastqps import __version__
from fastqps._core import COUNTERS, IDLES, METHODS, REJECTS, STAGES, TRANSPORT_COUNTERS, ProcessStats
from fastqps.api.codes import CODES, FAULTS
from fastqps.telemetry.metrics.canaries import canary_families
from fastqps.telemetry.metrics.credentials import credential_families
from fastqps.telemetry.metrics.fill import WINDOW_S as FILL_S
from fastqps.telemetry.metrics.fill import FillWindow
from fastqps.telemetry.metrics.histograms import Edges, Merged
from fastqps.telemetry.metrics.meter import WINDOW_S, LoadMeter
from fastqps.telemetry.metrics.queue import queue_families
from fastqps.telemetry.metrics.saturation import CAUSES
from fastqps.telemetry.metrics.source import Source
from fastqps.telemetry.metrics.tenants import TenantMeter
from fastqps.telemetry.metrics.upstream_rows import UpstreamCounts
from fastqps.telemetry.metrics.upstreams import upstream_families
from fastqps.telemetry.metrics.versions import version_families

# These series exist from the start, with the value 0. A counter that appears with its first failure shows no increase,
# so that failure would raise no alarm.
NATIVE_METHODS = ("Predict", "PredictBatch", "PredictStream", "Generate")  # those of other protocols once they are used
SHOWN_CODES = {"OK", *FAULTS}
_NS = 1e-9


class Metrics:
    """The collector of all metrics, which reads them on demand. ``page`` is the body of the HTTP answer."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.meter = LoadMeter(source)
        self._fill = FillWindow(source)
        self._tenants = TenantMeter(source)
        self._upstreams = UpstreamCounts()
        self._started_s = time.time()
        self._time_edges = Edges(1 << 10, 1 << 36, 2, _NS)
        self._count_edges = Edges(2, 1 << 21, 1, 1, whole=True)
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
        yield from queue_families(self._source, dispatchers, self._time_edges)
        yield from self._tenants.families()
        yield from self._held()
        yield from self._batches(dispatchers)
        yield from self._generation(dispatchers)
        yield from self._device(dispatchers)
        yield from upstream_families(self._source, self._upstreams, self._time_edges)
        yield from self._troubles(doors)
        yield from _counters(stats)
        yield from self._transport(doors)
        yield from credential_families(self._source, doors)
        yield from self._saturation()
        yield from self._usage(doors, dispatchers)
        yield from self._processes(stats)
        yield from canary_families(self._source.canaries())
        yield from self._tracing()

    def _requests(self, doors: list[ProcessStats]) -> Iterator[Any]:
        requests = CounterMetricFamily("fastqps_requests", "Calls answered.", labels=["model", "method", "code"])
        items = CounterMetricFamily("fastqps_items", "Items answered; a batch has many.", labels=["model", "code"])
        by_method = np.sum([door.requests for door in doors], axis=0)
        by_item = np.sum([door.items for door in doors], axis=0)
        for m, model in enumerate(self._source.models):
            for k, method in enumerate(METHODS):
                for c, code in enumerate(CODES):
                    if by_method[m, k, c] or (c == 0 and method in NATIVE_METHODS):
                        # Calls that the transport answers itself (health, unknown methods) belong to no model.
                        named = "" if method == "other" else model
                        requests.add_metric([named, method, code], float(by_method[m, k, c]))
            for c, code in enumerate(CODES):
                if by_item[m, c] or code in SHOWN_CODES:
                    items.add_metric([model, code], float(by_item[m, c]))
        yield requests
        yield items

    def _durations(self, doors: list[ProcessStats], dispatchers: list[ProcessStats]) -> Iterator[Any]:
        request = HistogramMetricFamily(
            "fastqps_request_duration_seconds", "From a call's headers to its answer.", labels=["model", "method"]
        )
        for m, model in enumerate(self._source.models):
            for k, method in enumerate(METHODS[:-1]):  # all but "other"
                merged = Merged.of(door.request[m][k] for door in doors)
                if method not in NATIVE_METHODS and not any(door.requests[m, k].any() for door in doors):
                    continue
                merged.add_to(request, [model, method], self._time_edges, _NS)
        yield request
        stages = HistogramMetricFamily("fastqps_stage_duration_seconds", "Where items spend time.", labels=["stage"])
        for stage in STAGES:
            merged = Merged.of(process.stage[stage] for process in (*doors, *dispatchers))
            merged.add_to(stages, [stage], self._time_edges, _NS)
        yield stages

    def _held(self) -> Iterator[Any]:
        segment, lines = self._source.segment, self._source.segment.doors()
        waits = GaugeMetricFamily(
            "fastqps_queue_wait_p95_seconds", f"Of the items of the last {WINDOW_S} s.", labels=["model"]
        )
        for model, wait_s in zip(self._source.models, self.meter.load.queue_wait_s, strict=True):
            waits.add_metric([model], wait_s)
        yield waits
        yield _gauge("requests_running", "Items that a dispatcher holds.", sum(d.running for d in lines))
        yield _gauge("slots", "Items that the front doors can hold.", segment.sizes.doors * segment.sizes.slots)
        yield _gauge("slots_used", "Items that they hold.", sum(d.slots_used for d in lines))

    def _batches(self, dispatchers: list[ProcessStats]) -> Iterator[Any]:
        for name, what in (("batch_items", "Items in a batch."), ("batch_tokens", "Tokens in a batch.")):
            family = HistogramMetricFamily(f"fastqps_{name}", what, labels=["model"])
            for m, model in enumerate(self._source.models):
                own = (s for d, s in enumerate(dispatchers) if self._source.model_of(d) == m)
                Merged.of(getattr(s, name) for s in own).add_to(family, [model], self._count_edges, 1)
            yield family
        what = f"Tokens in the batches of the last {FILL_S} s, divided by their room."
        fill = GaugeMetricFamily("fastqps_batch_fill_ratio", what, labels=["model"])
        for model, ratio in zip(self._source.models, self._fill.ratios(), strict=True):
            if ratio is not None:
                fill.add_metric([model], ratio)
        yield fill

    def _generation(self, dispatchers: list[ProcessStats]) -> Iterator[Any]:
        segment, lines = self._source.segment, self._source.segment.dispatchers()
        made = CounterMetricFamily("fastqps_generated_tokens", "Tokens generated.", labels=["model"])
        slots = GaugeMetricFamily("fastqps_cache_slots", "Sequences that can run at a time.", labels=["model"])
        used = GaugeMetricFamily("fastqps_cache_slots_used", "Sequences that run.", labels=["model"])
        for m, model in enumerate(self._source.models):
            own = {d: serves for d, serves in self._source.filled().items() if self._source.model_of(d) == m}
            per_dispatcher = segment.route(self._source.route_of(m)).cache_slots
            if per_dispatcher:  # it generates
                ever = (d for d in range(len(dispatchers)) if self._source.model_of(d) == m)
                made.add_metric([model], sum(dispatchers[d].counters["generated_tokens"] for d in ever))
                slots.add_metric([model], per_dispatcher * len(own))
                used.add_metric([model], sum(lines[d].running for d, serves in own.items() if serves))
        yield from (made, slots, used)

    def _device(self, dispatchers: list[ProcessStats]) -> Iterator[Any]:
        labels = ["device", "dispatcher"]
        busy = CounterMetricFamily("fastqps_device_busy_seconds", "Time in which steps ran.", labels=labels)
        idle = CounterMetricFamily(
            "fastqps_device_idle_seconds", "Time in which none ran, and why.", labels=[*labels, "reason"]
        )
        steps = CounterMetricFamily("fastqps_steps", "Steps that ran.", labels=labels)
        items = CounterMetricFamily("fastqps_step_items", "Items in them.", labels=labels)
        info = GaugeMetricFamily("fastqps_dispatcher_info", "Always 1.", labels=["dispatcher", "model"])
        lines = self._source.segment.dispatchers()
        for d, stats in enumerate(dispatchers):
            if not lines[d].epoch:  # it has never run; after its end its counters stay
                continue
            device = self._source.devices[self._source.device_of(d)]
            busy.add_metric([device, str(d)], stats.counters["busy_ns"] * _NS)
            steps.add_metric([device, str(d)], stats.counters["steps"])
            items.add_metric([device, str(d)], stats.counters["step_items"])
            info.add_metric([str(d), self._source.models[self._source.model_of(d)]], 1.0)
            for reason in IDLES:
                idle.add_metric([device, str(d), reason], stats.idle_ns[reason] * _NS)
        active = CounterMetricFamily(
            "fastqps_device_active_seconds", "Time in which a step of any dispatcher ran.", labels=["device"]
        )
        self._source.busy.update()
        for i, name in enumerate(self._source.devices):
            active.add_metric([name], self._source.busy.busy_ns(i) * _NS)
        yield from (busy, idle, steps, items, info, active)

    def _troubles(self, doors: list[ProcessStats]) -> Iterator[Any]:
        rejected = CounterMetricFamily("fastqps_rejected", "Items refused, and why.", labels=["reason"])
        for reason in REJECTS:
            rejected.add_metric([reason], sum(door.rejected[reason] for door in doors))
        yield rejected
        expired = CounterMetricFamily(
            "fastqps_expired", "Items whose time passed, and in which stage.", labels=["stage"]
        )
        for stage in STAGES:
            expired.add_metric([stage], sum(door.expired[stage] for door in doors))
        yield expired

    def _transport(self, doors: list[ProcessStats]) -> Iterator[Any]:
        received = CounterMetricFamily("fastqps_received_bytes", "Bytes from clients.", labels=["frontdoor"])
        sent = CounterMetricFamily("fastqps_sent_bytes", "Bytes to clients.", labels=["frontdoor"])
        events = CounterMetricFamily(
            "fastqps_transport_events", "Events of the HTTP layer.", labels=["frontdoor", "event"]
        )
        what = "Plain HTTP responses by protocol and class of status."
        http = CounterMetricFamily("fastqps_http_responses", what, labels=["frontdoor", "protocol", "status"])
        for i, door in enumerate(doors):
            counters = door.transport
            received.add_metric([str(i)], counters["bytes_in"])
            sent.add_metric([str(i)], counters["bytes_out"])
            for event in TRANSPORT_COUNTERS:
                if event.endswith("xx"):
                    http.add_metric([str(i), *event.split("_")], counters[event])
                elif not event.startswith("bytes_") and event != "unauthenticated":
                    events.add_metric([str(i), event], counters[event])
        yield from (received, sent, events, http)

    def _saturation(self) -> Iterator[Any]:
        meter, capacity = self.meter, self._source.capacity
        last = f"of the last {WINDOW_S} s"
        yield _gauge(
            "saturation_ratio", f"The largest of the saturation terms, 1 at the limit; mean {last}.", meter.saturation
        )
        yield _gauge("saturation_peak_ratio", f"The highest saturation of any second {last}.", meter.peak)
        terms = GaugeMetricFamily("fastqps_saturation_term_ratio", "Saturation terms by cause.", labels=["cause"])
        causes = GaugeMetricFamily("fastqps_saturation_cause", "1 for the cause of the saturation.", labels=["cause"])
        for cause in CAUSES:
            causes.add_metric([cause], float(cause == meter.cause))
            if cause in meter.terms:
                terms.add_metric([cause], meter.terms[cause])
        yield from (terms, causes)
        what = f"Share of time that the busiest device would need for its work in full steps; mean {last}."
        yield _gauge("device_load_ratio", what, meter.load.device)
        what = "Servers that this one's load needs; summed over all servers, their right number."
        yield _gauge("advised_replicas", what, meter.advised_replicas)
        what = "The target of the saturation."
        yield _gauge("target_saturation_ratio", what, self._source.target_saturation)
        if capacity is not None and meter.headroom is not None:
            yield _gauge("capacity_requests_per_second", "Items per second at the knee, as measured.", capacity.rate)
            yield _gauge("headroom_requests_per_second", "Items per second that still fit.", meter.headroom)

    def _usage(self, doors: list[ProcessStats], dispatchers: list[ProcessStats]) -> Iterator[Any]:
        lines = self._source.segment.dispatchers()
        ever = {d: stats for d, stats in enumerate(dispatchers) if lines[d].epoch}
        for role, processes in (("dispatcher", ever), ("frontdoor", dict(enumerate(doors)))):
            what = "Time in which its loop did not sleep."
            busy = CounterMetricFamily(f"fastqps_{role}_busy_seconds", what, labels=[role])
            for i, stats in processes.items():
                busy.add_metric([str(i)], stats.counters["awake_ns"] * _NS)
            yield busy
        cpu = CounterMetricFamily("fastqps_cpu_seconds", "CPU time of the processes.", labels=["role"])
        for role, used_s in self.meter.usage.cpu_s.items():
            cpu.add_metric([role], used_s)
        yield cpu
        memory = GaugeMetricFamily(
            "fastqps_memory_bytes", "Memory: private by role, and shared by all.", labels=["role"]
        )
        for role, used in self.meter.usage.memory().items():
            memory.add_metric([role], used)
        yield memory

    def _tracing(self) -> Iterator[Any]:
        spans = CounterMetricFamily("fastqps_trace_spans", "Spans by outcome.", labels=["outcome"])
        for outcome, count in self._source.trace_spans().items():
            spans.add_metric([outcome], count)
        yield spans

    def _starts(self, stats: list[ProcessStats], serving: Mapping[str, Mapping[int, bool]]) -> GaugeMetricFamily:
        what = "Time that the start of a process took, by stage."
        starts = GaugeMetricFamily("fastqps_process_start_seconds", what, labels=["role", "index", "stage"])
        doors = self._source.segment.sizes.doors
        for role, first in (("frontdoor", 0), ("dispatcher", doors)):
            for i in serving[role]:
                for stage, ns in stats[first + i].start_ns.items():
                    if ns:
                        starts.add_metric([role, str(i), stage], ns * _NS)
        return starts

    def _processes(self, stats: list[ProcessStats]) -> Iterator[Any]:
        connections = GaugeMetricFamily("fastqps_connections", "Open client connections.", labels=["frontdoor"])
        up = GaugeMetricFamily("fastqps_process_ready", "1: the process serves.", labels=["role", "index"])
        for i, line in enumerate(self._source.segment.doors()):
            connections.add_metric([str(i)], line.connections)
        serving = {"frontdoor": dict(enumerate(self._source.doors())), "dispatcher": self._source.filled()}
        for role, workers in serving.items():
            for i, serves in workers.items():
                up.add_metric([role, str(i)], float(serves))
        yield connections
        yield up
        yield self._starts(stats, serving)
        yield _gauge("ready", "1: load balancers should send requests here.", float(self._source.ready))
        what = "Kernels that failed their check, so that torch's operation replaces them."
        fallbacks = CounterMetricFamily("fastqps_kernel_fallbacks", what, labels=["kernel"])
        for kernel, count in self._source.kernel_fallbacks().items():
            fallbacks.add_metric([kernel], count)
        yield fallbacks
        restarts = CounterMetricFamily("fastqps_restarts", "Processes started again.", labels=["role"])
        for role, count in self._source.restarts().items():
            restarts.add_metric([role], count)
        yield restarts
        yield from version_families(self._source)
        info = GaugeMetricFamily("fastqps_build_info", "Always 1.", labels=["version", "device"])
        info.add_metric([__version__, self._source.device], 1)
        yield info
        yield _gauge("start_time_seconds", "When the server was started, since 1970.", self._started_s)


def _counters(stats: list[ProcessStats]) -> Iterator[CounterMetricFamily]:
    """The counters without labels, summed over all processes: those with a metric in csrc/core/layout/stats.h."""
    for row in COUNTERS:
        if row.metric:
            total = sum(process.counters[row.name] for process in stats)
            yield _counter(row.metric, row.help, total * row.scale)


def _counter(name: str, what: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(f"fastqps_{name}", what, value=value)


def _gauge(name: str, what: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"fastqps_{name}", what, value=value)
