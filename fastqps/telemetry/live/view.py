"""The activity of a server between two readings of its counters: what the live page, ``fastqps top`` and ``fastqps
bench`` show. Times in µs, rates per second, shares of 1; None: there was nothing to say it from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from fastqps.telemetry.live.counts import Counts, DispatcherCounts, DoorCounts, ModelCounts, UpstreamState
from fastqps.telemetry.live.spread import Spread, spread
from fastqps.telemetry.metrics.meter import Load
from fastqps.telemetry.metrics.upstreams import COUNTERS, EVENTS

_US = 1e-3  # of nanoseconds
Row = TypeVar("Row", "Model", "Dispatcher", "Door", "Upstream", "View")


@dataclass(frozen=True)
class Model:
    """A model's queue now, and its batches. ``cache_slots`` 0: it does not generate."""

    name: str
    version: str
    waiting: int
    waiting_by_class: Mapping[str, int]  # of those classes that have any
    oldest: float
    batch_items: float | None
    batch_tokens: float | None
    fill: float | None
    tokens_made: float | None
    cache_slots: int
    cache_used: int


@dataclass(frozen=True)
class Dispatcher:
    """``busy`` and ``idle`` (by reason) are shares of the time that it accounts for; ``accounted`` and ``awake``: of
    all time."""

    index: int
    model: str
    device: str
    ready: bool
    steps: float
    items: float
    busy: float | None
    idle: Mapping[str, float]
    accounted: float
    awake: float


@dataclass(frozen=True)
class Door:
    """A front door; bytes."""

    index: int
    ready: bool
    connections: int
    received: float
    sent: float
    awake: float


@dataclass(frozen=True)
class Upstream:
    """A server that an edge sends to. ``utilization``, ``waiting`` and ``running``: as it says. ``rates``: of items, by
    what became of them."""

    name: str
    state: str  # the best one that a dispatcher sees
    reason: str
    in_flight: int
    window: int
    utilization: float
    waiting: int
    running: int
    rtt: float | None
    rates: Mapping[str, float]
    sent_bytes: float
    received_bytes: float


@dataclass(frozen=True)
class View:
    """The whole answer of ``/live.json``. ``in_flight`` and ``queued``: items on average; ``running``: now."""

    at: float
    seconds: float
    version: str
    device: str
    up_s: float
    ready: bool
    reasons: Sequence[str]
    degraded: Sequence[str]
    restarts: Mapping[str, int]
    codes: Mapping[str, float]
    calls: float
    refused: Mapping[str, float]
    expired: float
    latency: Spread
    in_flight: float
    queued: float
    running: int
    slots_used: int
    slots: int
    load: Load | None
    models: Sequence[Model]
    stages: Mapping[str, Spread]
    hop: Mapping[str, Spread]  # of an edge: the parts of ``device``
    devices: Mapping[str, float]  # the share of time in which a step of any dispatcher ran
    dispatchers: Sequence[Dispatcher]
    doors: Sequence[Door]
    upstreams: Sequence[Upstream]


def view(before: Counts, after: Counts) -> View:
    """Computes rates and means from two readings of the same server."""
    seconds = max(1e-9, (after["at_ns"] - before["at_ns"]) * 1e-9)
    models = {model["name"]: model for model in before["models"]}
    dispatchers = {dispatcher["index"]: dispatcher for dispatcher in before["dispatchers"]}
    doors = dict(enumerate(before["doors"]))
    upstreams = {upstream["name"]: upstream for upstream in before["upstreams"]}

    return _row(
        View,
        after,
        seconds=seconds,
        up_s=max(0.0, after["at"] - after["started"]),
        codes=_rates(before["codes"], after["codes"], seconds),
        calls=_rate(before["calls"], after["calls"], seconds),
        refused=_rates(before["refused"], after["refused"], seconds),
        expired=_rate(before["expired"], after["expired"], seconds),
        latency=spread(before["request"], after["request"], _US),
        in_flight=_rate(before["held_ns"], after["held_ns"], seconds * 1e9),
        queued=_rate(before["waited_ns"], after["waited_ns"], seconds * 1e9),
        models=[_model(models.get(now["name"], now), now, seconds) for now in after["models"]],
        stages={name: spread(before["stages"][name], now, _US) for name, now in after["stages"].items()},
        hop={part: spread(before["hop"][part], now, _US) for part, now in after["hop"].items()},
        devices={name: _share(before["devices"].get(name, ns), ns, seconds) for name, ns in after["devices"].items()},
        dispatchers=[_dispatcher(dispatchers.get(now["index"], now), now, seconds) for now in after["dispatchers"]],
        doors=[_door(i, doors.get(i, now), now, seconds) for i, now in enumerate(after["doors"])],
        upstreams=[_upstream(upstreams.get(now["name"], now), now, seconds) for now in after["upstreams"]],
    )


def _row(kind: type[Row], now: Mapping[str, Any], **figures: Any) -> Row:
    """``figures``, and as they were read all fields that the counters have, too."""
    return kind(**({field.name: now[field.name] for field in fields(kind) if field.name in now} | figures))


def _model(then: ModelCounts, now: ModelCounts, seconds: float) -> Model:
    room = now["step_room"] - then["step_room"]
    return _row(
        Model,
        now,
        waiting=sum(now["waiting"].values()),
        waiting_by_class=now["waiting"],
        oldest=now["oldest_ns"] * _US,
        batch_items=spread(then["items"], now["items"]).mean,
        batch_tokens=spread(then["tokens"], now["tokens"]).mean,
        fill=(now["step_tokens"] - then["step_tokens"]) / room if room > 0 else None,
        tokens_made=_rate(then["tokens_made"], now["tokens_made"], seconds) if now["cache_slots"] else None,
    )


def _dispatcher(then: DispatcherCounts, now: DispatcherCounts, seconds: float) -> Dispatcher:
    """A step that is under way counts when it is over."""
    busy = max(0, now["busy_ns"] - then["busy_ns"])
    idle = {reason: max(0, ns - then["idle_ns"].get(reason, 0)) for reason, ns in now["idle_ns"].items()}
    observed_ns = busy + sum(idle.values())
    return _row(
        Dispatcher,
        now,
        steps=_rate(then["steps"], now["steps"], seconds),
        items=_rate(then["items"], now["items"], seconds),
        busy=busy / observed_ns if observed_ns else None,
        idle={reason: ns / observed_ns for reason, ns in idle.items()} if observed_ns else {},
        accounted=_share(0, observed_ns, seconds),
        awake=_share(then["awake_ns"], now["awake_ns"], seconds),
    )


def _door(index: int, then: DoorCounts, now: DoorCounts, seconds: float) -> Door:
    return _row(
        Door,
        now,
        index=index,
        received=_rate(then["received"], now["received"], seconds),
        sent=_rate(then["sent"], now["sent"], seconds),
        awake=_share(then["awake_ns"], now["awake_ns"], seconds),
    )


def _upstream(then: UpstreamState, now: UpstreamState, seconds: float) -> Upstream:
    rates = {event: _rate(then["counts"][event], now["counts"][event], seconds) for event in COUNTERS}
    return _row(
        Upstream,
        now,
        rtt=now["rtt_ns"] * _US or None,
        rates={event: rates[event] for event in EVENTS},
        sent_bytes=rates["bytes_out"],
        received_bytes=rates["bytes_in"],
    )


def _rate(then: int, now: int, seconds: float) -> float:
    """One process counts and another reads: a counter that seems to shrink was read a moment too early."""
    return max(0, now - then) / seconds


def _share(then_ns: int, now_ns: int, seconds: float) -> float:
    return min(1.0, _rate(then_ns, now_ns, seconds * 1e9))


def _rates(then: Mapping[str, int], now: Mapping[str, int], seconds: float) -> dict[str, float]:
    """The rates above 0."""
    rates = {name: _rate(then.get(name, 0), count, seconds) for name, count in now.items()}
    return {name: rate for name, rate in rates.items() if rate}
