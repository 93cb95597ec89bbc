"""All that a server counts, at one moment: the answer of ``/live/counts.json``.

``/live.json``, ``fastqps top`` and ``fastqps bench`` make their figures of the difference of two such readings
(``view``). It is JSON, so that each of them reads the same.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Protocol, TypedDict, cast, get_type_hints

import numpy as np

from fastqps import __version__
from fastqps._core import CLASSES, IDLES, METHODS, REJECTS, STAGES, ProcessStats, now_ns
from fastqps.errors import StatusCode
from fastqps.process.served_models import Readiness
from fastqps.telemetry.metrics.families import Merged
from fastqps.telemetry.metrics.meter import Load
from fastqps.telemetry.metrics.source import Source
from fastqps.telemetry.metrics.upstreams import HOP, upstreams

_OWN = METHODS.index("other")  # calls that the transport answered itself, not for a model


class Seen(Source, Protocol):
    """A server's counters, and other knowledge of it."""

    def readiness(self) -> Readiness:
        """Whether the server serves, and why not."""


class Histogram(TypedDict):
    """``buckets``: [index, observations], of those that have any."""

    sum: int
    buckets: list[list[int]]


class ModelCounts(TypedDict):
    """A queue, and batches. ``step_room``: the token room of all batches. ``cache_slots`` 0: it does not generate."""

    name: str
    version: str
    waiting: dict[str, int]  # by class, of those that have any
    oldest_ns: int
    items: Histogram
    tokens: Histogram
    step_tokens: int
    step_room: int
    tokens_made: int
    cache_slots: int
    cache_used: int


class DispatcherCounts(TypedDict):
    """One that serves or is about to: of replaced ones the counters mean nothing."""

    index: int
    model: str
    device: str
    ready: bool
    busy_ns: int
    idle_ns: dict[str, int]  # by reason
    awake_ns: int
    steps: int
    items: int


class DoorCounts(TypedDict):
    """A front door."""

    ready: bool
    connections: int
    awake_ns: int
    received: int
    sent: int


class UpstreamState(TypedDict):
    """A server that an edge sends to."""

    name: str
    state: str
    reason: str
    in_flight: int
    window: int
    utilization: float
    waiting: int
    running: int
    rtt_ns: int
    counts: dict[str, int]


_UPSTREAM = tuple(get_type_hints(UpstreamState))  # all of them attributes of a row


class Counts(TypedDict):
    """``codes``: items; ``calls`` of all methods; ``held_ns`` and ``waited_ns``: integrals over items."""

    at: float
    at_ns: int
    started: float
    version: str
    device: str
    ready: bool
    reasons: list[str]
    degraded: list[str]
    restarts: dict[str, int]
    codes: dict[str, int]
    calls: int
    refused: dict[str, int]
    expired: int
    held_ns: int
    waited_ns: int
    running: int
    slots_used: int
    slots: int
    load: Load | None
    request: Histogram
    stages: dict[str, Histogram]
    hop: dict[str, Histogram]  # by HOP; nothing where there are no upstreams
    models: list[ModelCounts]
    dispatchers: list[DispatcherCounts]
    devices: dict[str, int]  # time in which a step of any dispatcher ran, in ns
    doors: list[DoorCounts]
    upstreams: list[UpstreamState]


def read_counts(seen: Seen, started: float, load: Load | None) -> Counts:
    """Now. ``started``: when the server was, in seconds since 1970."""
    segment, sizes = seen.segment, seen.segment.sizes
    stats = [segment.stats(i) for i in range(sizes.doors + sizes.dispatchers)]
    doors, dispatchers, lines = stats[: sizes.doors], stats[sizes.doors :], segment.doors()
    readiness = seen.readiness()
    seen.busy.update()
    return Counts(
        at=round(time.time(), 3),
        at_ns=now_ns(),
        started=started,
        version=__version__,
        device=seen.device,
        ready=not readiness.reasons,
        reasons=list(readiness.reasons),
        degraded=list(readiness.degraded),
        restarts=dict(seen.restarts()),
        codes=dict(
            zip(
                StatusCode.__members__, np.sum([door.items.sum(axis=0) for door in doors], axis=0).tolist(), strict=True
            )
        ),
        calls=sum(int(door.requests[:, :_OWN].sum()) for door in doors),
        refused={reason: sum(door.rejected[reason] for door in doors) for reason in REJECTS},
        expired=sum(sum(door.expired.values()) for door in doors),
        held_ns=sum(door.counters["inflight_ns"] for door in doors),
        waited_ns=sum(door.counters["queue_wait_ns"] for door in doors),
        running=sum(line.running for line in lines),
        slots_used=sum(line.slots_used for line in lines),
        slots=sizes.doors * sizes.slots,
        load=load,
        request=_merged(part for door in doors for model in door.request for part in model),
        stages={stage: _merged(process.stage[stage] for process in stats) for stage in STAGES},
        hop=_hop(seen),
        models=[_model(seen, model, dispatchers) for model in range(len(seen.models))],
        dispatchers=[_dispatcher(seen, i, serves, dispatchers[i]) for i, serves in seen.filled().items()],
        devices={name: seen.busy.busy_ns(i) for i, name in enumerate(seen.devices)},
        doors=[
            DoorCounts(
                ready=serves,
                connections=line.connections,
                awake_ns=door.counters["awake_ns"],
                received=door.transport["bytes_in"],
                sent=door.transport["bytes_out"],
            )
            for serves, line, door in zip(seen.doors(), lines, doors, strict=True)
        ],
        upstreams=[cast(UpstreamState, {key: getattr(each, key) for key in _UPSTREAM}) for each in upstreams(seen)],
    )


def _merged(parts: Any) -> Histogram:
    merged = Merged.of(parts)
    return Histogram(
        sum=int(merged.sum), buckets=[[int(i), int(merged.buckets[i])] for i in merged.buckets.nonzero()[0]]
    )


def _model(seen: Seen, model: int, dispatchers: Sequence[ProcessStats]) -> ModelCounts:
    route, now = seen.route_of(model), now_ns()
    waiting, limits = seen.segment.waiting(route), seen.segment.route(route)
    own = [stats for d, stats in enumerate(dispatchers) if seen.model_of(d) == model]
    serving = {d: serves for d, serves in seen.filled().items() if seen.model_of(d) == model}
    lines = seen.segment.dispatchers() if limits.cache_slots else ()
    return ModelCounts(
        name=seen.models[model],
        version=limits.version,
        waiting={kind: count for kind, (count, _) in zip(CLASSES, waiting, strict=True) if count},
        oldest_ns=max(max(0, now - since) if since else 0 for _, since in waiting),
        items=_merged(stats.batch_items for stats in own),
        tokens=_merged(stats.batch_tokens for stats in own),
        step_tokens=sum(stats.counters["step_tokens"] for stats in own),
        step_room=sum(stats.counters["step_capacity_tokens"] for stats in own),
        tokens_made=sum(stats.counters["generated_tokens"] for stats in own),
        cache_slots=limits.cache_slots * len(serving),
        cache_used=sum(lines[d].running for d, serves in serving.items() if serves) if limits.cache_slots else 0,
    )


def _dispatcher(seen: Seen, index: int, serves: bool, stats: ProcessStats) -> DispatcherCounts:
    return DispatcherCounts(
        index=index,
        model=seen.models[seen.model_of(index)],
        device=seen.devices[seen.device_of(index)],
        ready=serves,
        busy_ns=stats.counters["busy_ns"],
        idle_ns={reason: stats.idle_ns[reason] for reason in IDLES},
        awake_ns=stats.counters["awake_ns"],
        steps=stats.counters["steps"],
        items=stats.counters["step_items"],
    )


def _hop(seen: Seen) -> dict[str, Histogram]:
    sizes = seen.segment.sizes
    totals = [seen.segment.upstream_totals(d) for d in range(sizes.dispatchers if sizes.upstreams else 0)]
    return {part: _merged(getattr(each, part) for each in totals) for part in HOP}
