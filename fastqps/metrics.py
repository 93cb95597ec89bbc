"""Prometheus metrics, read from the shared segment when they are asked for. Nothing is counted here.

Each number has one writer, the process that it is about; a scrape adds the processes up. Histograms keep 8 steps per
power of two; a scrape shows two of them, on edges where both agree, so no count is a guess.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder

from fastqps import __version__
from fastqps._core import IDLES, METHODS, REJECTS, STAGES, TRANSPORT_COUNTERS, histogram_upper, now_ns
from fastqps.codes import CODES

SERVED_METHODS = ("Predict", "PredictBatch", "PredictStream")  # shown from the start, with 0
WINDOW_S = 10
_NS = 1e-9

Buckets = npt.NDArray[np.uint64]


class Source(Protocol):
    """What a scrape reads: the segment, and what only the supervisor knows."""

    segment: Any
    models: Sequence[str]
    device: str

    def route_of(self, model: int) -> int:
        """The route that answers for a model."""

    def model_of(self, dispatcher: int) -> int:
        """The model that a dispatcher serves."""

    def restarts(self) -> dict[str, int]:
        """How often processes were started again, by role."""


class Edges:
    """Chosen upper edges of the segment's histograms. ``scale``: from the recorded unit to the shown one."""

    def __init__(self, least: int, most: int, per_octave: int, scale: float, whole: bool = False) -> None:
        wanted = {least * 2**k * (per_octave + j) // per_octave for k in range(64) for j in range(per_octave)}
        upper = {histogram_upper(i): i for i in range(320)}
        chosen = sorted(edge for edge in wanted if edge <= most and edge in upper)
        self._index = np.array([upper[edge] for edge in chosen])
        # An edge is exclusive in the segment and inclusive here: for whole numbers that is the number before it.
        self._names = [str(edge - 1) if whole else repr(float(f"{edge * scale:.6g}")) for edge in chosen]

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
    def of(cls, parts: Iterable[dict[str, Any]]) -> Merged:
        merged = cls(np.zeros(320, dtype=np.uint64))
        for part in parts:
            merged.buckets = merged.buckets + part["buckets"]
            merged.sum += part["sum"]
        return merged

    def add_to(self, family: HistogramMetricFamily, labels: Sequence[str], edges: Edges, scale: float) -> None:
        """One series. The count is that of the buckets: theirs and ``count`` may be a record apart."""
        count = int(self.buckets.sum())
        family.add_metric(labels, edges.cumulative(self.buckets, count), sum_value=self.sum * scale)


class FillWindow:
    """How full the batches of the last WINDOW_S seconds were, by model. Sampled once a second."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._samples: deque[list[tuple[int, int]]] = deque([self._totals()], maxlen=WINDOW_S + 1)

    def sample(self) -> None:
        """Once a second."""
        self._samples.append(self._totals())

    def ratios(self) -> list[float | None]:
        """Tokens in batches, over what they had room for. None: no batch in the window."""
        first, last = self._samples[0], self._totals()
        changes = [(now[0] - then[0], now[1] - then[1]) for then, now in zip(first, last, strict=True)]
        return [tokens / room if room else None for tokens, room in changes]

    def _totals(self) -> list[tuple[int, int]]:
        source = self._source
        totals = [(0, 0)] * len(source.models)
        doors = source.segment.sizes.doors
        for d in range(source.segment.sizes.dispatchers):
            stats, model = source.segment.stats(doors + d), source.model_of(d)
            tokens, room = totals[model]
            totals[model] = (tokens + stats["step_tokens"], room + stats["step_capacity_tokens"])
        return totals


class Metrics:
    """Collects on demand; ``page`` is what an HTTP server answers with."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.fill = FillWindow(source)
        self._time_edges = Edges(1 << 10, 1 << 36, 2, _NS)
        self._count_edges = Edges(2, 1 << 21, 1, 1, whole=True)
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

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
        yield from self._queue(doors)
        yield from self._batches(dispatchers)
        yield from self._device(dispatchers)
        yield from self._troubles(doors, dispatchers)
        yield from self._transport(doors)
        yield from self._processes()

    def _requests(self, doors: list[dict[str, Any]]) -> Iterator[Any]:
        requests = CounterMetricFamily("fastqps_requests", "Calls answered.", labels=["model", "method", "code"])
        items = CounterMetricFamily("fastqps_items", "Items answered; a batch has many.", labels=["model", "code"])
        by_method = sum(door["requests"] for door in doors)
        by_item = sum(door["items"] for door in doors)
        for m, model in enumerate(self._source.models):
            for k, method in enumerate(METHODS):
                for c, code in enumerate(CODES):
                    if by_method[m, k, c] or (c == 0 and method in SERVED_METHODS):
                        # What the transport answered itself (health, unknown methods) is of no model.
                        named = "" if method == "other" else model
                        requests.add_metric([named, method, code], float(by_method[m, k, c]))
            for c, code in enumerate(CODES):
                if by_item[m, c] or c == 0:
                    items.add_metric([model, code], float(by_item[m, c]))
        yield requests
        yield items

    def _durations(self, doors: list[dict[str, Any]], dispatchers: list[dict[str, Any]]) -> Iterator[Any]:
        request = HistogramMetricFamily("fastqps_request_duration_seconds", "From a call's headers to its answer.")
        Merged.of(door["request"] for door in doors).add_to(request, [], self._time_edges, _NS)
        yield request
        stages = HistogramMetricFamily("fastqps_stage_duration_seconds", "Where items spend time.", labels=["stage"])
        for stage in STAGES:
            merged = Merged.of(process["stage"][stage] for process in (*doors, *dispatchers))
            merged.add_to(stages, [stage], self._time_edges, _NS)
        yield stages

    def _queue(self, doors: list[dict[str, Any]]) -> Iterator[Any]:
        segment, now = self._source.segment, now_ns()
        waiting = GaugeMetricFamily("fastqps_requests_waiting", "Items that wait for a dispatcher.", labels=["model"])
        oldest = GaugeMetricFamily("fastqps_queue_oldest_age_seconds", "Age of the oldest of them.", labels=["model"])
        for m, model in enumerate(self._source.models):
            route = self._source.route_of(m)
            since = segment.oldest_ns(route)
            waiting.add_metric([model], segment.waiting(route))
            oldest.add_metric([model], max(0, now - since) * _NS if since else 0.0)
        yield waiting
        yield oldest
        lines = segment.doors()
        yield _gauge("requests_running", "Items that a dispatcher holds.", sum(d["running"] for d in lines))
        yield _counter("queue_wait_seconds", "Time that items waited.", _total(doors, "queue_wait_ns") * _NS)
        yield _counter("inflight_seconds", "Integral of items in flight.", _total(doors, "inflight_ns") * _NS)
        yield _gauge("slots", "Items that the front doors can hold.", segment.sizes.doors * segment.sizes.slots)
        yield _gauge("slots_used", "Items that they hold.", sum(d["slots_used"] for d in lines))

    def _batches(self, dispatchers: list[dict[str, Any]]) -> Iterator[Any]:
        for name, what in (("batch_items", "Items in a batch."), ("batch_tokens", "Tokens in a batch.")):
            family = HistogramMetricFamily(f"fastqps_{name}", what, labels=["model"])
            for m, model in enumerate(self._source.models):
                own = (s for d, s in enumerate(dispatchers) if self._source.model_of(d) == m)
                Merged.of(s[name] for s in own).add_to(family, [model], self._count_edges, 1)
            yield family
        what = f"Tokens in the batches of the last {WINDOW_S} s, over their room."
        fill = GaugeMetricFamily("fastqps_batch_fill_ratio", what, labels=["model"])
        for model, ratio in zip(self._source.models, self.fill.ratios(), strict=True):
            if ratio is not None:
                fill.add_metric([model], ratio)
        yield fill

    def _device(self, dispatchers: list[dict[str, Any]]) -> Iterator[Any]:
        device, labels = self._source.device, ["device", "dispatcher"]
        busy = CounterMetricFamily("fastqps_device_busy_seconds", "Time in which steps ran.", labels=labels)
        idle = CounterMetricFamily(
            "fastqps_device_idle_seconds", "Time in which none ran, and why.", labels=[*labels, "reason"]
        )
        for d, stats in enumerate(dispatchers):
            busy.add_metric([device, str(d)], stats["busy_ns"] * _NS)
            for reason in IDLES:
                idle.add_metric([device, str(d), reason], stats["idle_ns"][reason] * _NS)
        yield busy
        yield idle

    def _troubles(self, doors: list[dict[str, Any]], dispatchers: list[dict[str, Any]]) -> Iterator[Any]:
        rejected = CounterMetricFamily("fastqps_rejected", "Items refused, and why.", labels=["reason"])
        for reason in REJECTS:
            rejected.add_metric([reason], sum(door["rejected"][reason] for door in doors))
        yield rejected
        expired = CounterMetricFamily(
            "fastqps_expired", "Items whose time passed, and in which stage.", labels=["stage"]
        )
        for stage in STAGES:
            expired.add_metric([stage], sum(door["expired"][stage] for door in doors))
        yield expired
        everyone = [*doors, *dispatchers]
        yield _counter("requeued", "Items run again because their dispatcher died.", _total(everyone, "requeued"))
        yield _counter("suspects", "Items that then ran alone.", _total(everyone, "suspects"))
        yield _counter("poisoned", "Items given up: they killed each dispatcher.", _total(everyone, "poisoned"))

    def _transport(self, doors: list[dict[str, Any]]) -> Iterator[Any]:
        received = CounterMetricFamily("fastqps_received_bytes", "Bytes from clients.", labels=["frontdoor"])
        sent = CounterMetricFamily("fastqps_sent_bytes", "Bytes to clients.", labels=["frontdoor"])
        events = CounterMetricFamily(
            "fastqps_transport_events", "What the HTTP/2 layer saw and did.", labels=["frontdoor", "event"]
        )
        for i, door in enumerate(doors):
            counters = door["transport"]
            received.add_metric([str(i)], counters["bytes_in"])
            sent.add_metric([str(i)], counters["bytes_out"])
            for event in TRANSPORT_COUNTERS:
                if not event.startswith("bytes_"):
                    events.add_metric([str(i), event], counters[event])
        yield from (received, sent, events)

    def _processes(self) -> Iterator[Any]:
        connections = GaugeMetricFamily("fastqps_connections", "Open client connections.", labels=["frontdoor"])
        up = GaugeMetricFamily("fastqps_process_ready", "1: the process serves.", labels=["role", "index"])
        for i, line in enumerate(self._source.segment.doors()):
            connections.add_metric([str(i)], line["connections"])
            up.add_metric(["frontdoor", str(i)], float(line["ready"]))
        for i, line in enumerate(self._source.segment.dispatchers()):
            up.add_metric(["dispatcher", str(i)], float(line["ready"]))
        yield connections
        yield up
        restarts = CounterMetricFamily("fastqps_restarts", "Processes started again.", labels=["role"])
        for role, count in self._source.restarts().items():
            restarts.add_metric([role], count)
        yield restarts
        info = GaugeMetricFamily("fastqps_build_info", "Always 1.", labels=["version", "device"])
        info.add_metric([__version__, self._source.device], 1)
        yield info


def _total(stats: list[dict[str, Any]], key: str) -> int:
    return sum(s[key] for s in stats)


def _counter(name: str, what: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(f"fastqps_{name}", what, value=value)


def _gauge(name: str, what: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"fastqps_{name}", what, value=value)
