"""The figures of the time between two scrapes of a server's metrics. None: there was nothing to compute them from."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from fastqps.telemetry.scrape import Difference, Scrape

SERVING = "serving"  # the state of an upstream that takes requests


@dataclass(frozen=True)
class Model:
    """One model: its queue now, its batches since the last look. ``cache_slots`` 0: it does not generate."""

    name: str
    waiting: int
    waiting_by_class: Mapping[str, int]  # of those classes that have any
    oldest_s: float
    batch_items: float | None
    batch_tokens: float | None
    fill: float | None
    cache_slots: int
    cache_used: int
    tokens_per_s: float


@dataclass(frozen=True)
class Dispatcher:
    """``busy`` and the values of ``idle`` (by reason) are shares of its time. ``model``: "" from an older server."""

    index: str
    device: str
    model: str
    ready: bool
    busy: float | None
    idle: Mapping[str, float]
    steps_per_s: float | None


@dataclass(frozen=True)
class Stage:
    """Time that items spent in it. Seconds."""

    name: str
    mean_s: float
    p99_s: float


@dataclass(frozen=True)
class Upstream:
    """A server that an edge sends to. ``state``: the best one that a dispatcher sees. ``saturation``: as it says. Rates
    are items per second by what became of them."""

    name: str
    state: str
    in_flight: int
    window: int
    saturation: float
    rtt_s: float | None
    rates: Mapping[str, float]


@dataclass(frozen=True)
class View:
    """Everything that is shown. Rates are per second; ``in_flight`` items on average, ``running`` now; ``active`` is
    the union over a device's dispatchers, a share."""

    seconds: float
    version: str
    device: str
    up_s: float
    items: Mapping[str, float]
    calls: float
    p50_s: float | None
    p99_s: float | None
    in_flight: float
    running: int
    slots_used: int
    slots: int
    refused: Mapping[str, float]
    expired: float
    restarts: Mapping[str, int]
    capacity: float | None
    saturation: float | None
    cause: str | None  # of the saturation
    headroom: float | None
    models: tuple[Model, ...]
    active: Mapping[str, float]
    dispatchers: tuple[Dispatcher, ...]
    stages: tuple[Stage, ...]
    upstreams: tuple[Upstream, ...]  # of an edge

    @property
    def rate(self) -> float:
        """Items answered with any code."""
        return sum(self.items.values())


def restarted(before: Scrape, after: Scrape) -> bool:
    """Whether these are two servers: nothing can be said about the time between."""
    return started(before) != started(after)


def started(found: Scrape) -> float:
    """When the server was started, in seconds since 1970."""
    return found.total("fastqps_start_time_seconds")


def view(before: Scrape, after: Scrape) -> View:
    """From two scrapes of the same server."""
    change = Difference(before, after)
    per_s = 1 / max(change.seconds, 1e-9)
    info = next((labels for labels, _ in after.series("fastqps_build_info")), {})
    request = change.histogram("fastqps_request_duration_seconds")
    return View(
        seconds=change.seconds,
        version=info.get("version", "?"),
        device=info.get("device", "?"),
        up_s=max(0.0, time.time() - started(after)),
        items=_rates(change.by("fastqps_items_total", "code"), per_s),
        calls=change.total("fastqps_requests_total") * per_s,
        p50_s=request.quantile(0.5),
        p99_s=request.quantile(0.99),
        in_flight=change.total("fastqps_inflight_seconds_total") * per_s,
        running=int(after.total("fastqps_requests_running")),
        slots_used=int(after.total("fastqps_slots_used")),
        slots=int(after.total("fastqps_slots")),
        refused=_rates(change.by("fastqps_rejected_total", "reason"), per_s),
        expired=change.total("fastqps_expired_total") * per_s,
        restarts={role: int(n) for role, n in after.by("fastqps_restarts_total", "role").items()},
        capacity=after.find("fastqps_capacity_requests_per_second"),
        saturation=after.find("fastqps_saturation_ratio"),
        cause=next((c for c, won in after.by("fastqps_saturation_cause", "cause").items() if won), None),
        headroom=after.find("fastqps_headroom_requests_per_second"),
        models=tuple(_model(name, change, after) for name in after.by("fastqps_requests_waiting", "model")),
        active={d: min(1.0, s * per_s) for d, s in change.by("fastqps_device_active_seconds_total", "device").items()},
        dispatchers=_dispatchers(change, after, per_s),
        stages=_stages(change, list(after.by("fastqps_stage_duration_seconds_count", "stage"))),
        upstreams=tuple(_upstream(name, change, after) for name in after.by("fastqps_upstream_in_flight", "upstream")),
    )


def _rates(counts: Mapping[str, float], per_s: float) -> dict[str, float]:
    return {name: count * per_s for name, count in counts.items()}


def _model(name: str, change: Difference, after: Scrape) -> Model:
    return Model(
        name=name,
        waiting=int(after.total("fastqps_requests_waiting", model=name)),
        waiting_by_class={
            kind: int(n) for kind, n in after.by("fastqps_queue_items", "class", model=name).items() if n
        },
        oldest_s=after.total("fastqps_queue_oldest_age_seconds", model=name),
        batch_items=change.histogram("fastqps_batch_items", model=name).mean,
        batch_tokens=change.histogram("fastqps_batch_tokens", model=name).mean,
        fill=after.find("fastqps_batch_fill_ratio", model=name),
        cache_slots=int(after.total("fastqps_cache_slots", model=name)),
        cache_used=int(after.total("fastqps_cache_slots_used", model=name)),
        tokens_per_s=change.total("fastqps_generated_tokens_total", model=name) / max(change.seconds, 1e-9),
    )


def _dispatchers(change: Difference, after: Scrape, per_s: float) -> tuple[Dispatcher, ...]:
    found = []
    serving = after.by("fastqps_process_ready", "index", role="dispatcher")
    models = {labels["dispatcher"]: labels["model"] for labels, _ in after.series("fastqps_dispatcher_info")}
    for labels, busy_s in change.series("fastqps_device_busy_seconds_total"):
        index, device = labels["dispatcher"], labels["device"]
        if index not in serving:  # a reload has replaced it, or it is still starting: its counters remain
            continue
        idle_s = change.by("fastqps_device_idle_seconds_total", "reason", dispatcher=index)
        # A dispatcher accounts for a step when it is over, so a running step does not count yet.
        accounted_s = busy_s + sum(idle_s.values())
        steps = change.find("fastqps_steps_total", dispatcher=index)
        found.append(
            Dispatcher(
                index=index,
                device=device,
                model=models.get(index, ""),
                ready=serving[index] > 0,
                busy=busy_s / accounted_s if accounted_s > 0 else None,
                idle={reason: s / accounted_s for reason, s in idle_s.items()} if accounted_s > 0 else {},
                steps_per_s=None if steps is None else steps * per_s,
            )
        )
    return tuple(found)


def _upstream(name: str, change: Difference, after: Scrape) -> Upstream:
    states = after.by("fastqps_upstream_state", "state", upstream=name)
    counts = change.by("fastqps_upstream_items_total", "event", upstream=name)
    return Upstream(
        name=name,
        state=SERVING if states.get(SERVING) else max(states, key=states.__getitem__, default="none"),
        in_flight=int(after.total("fastqps_upstream_in_flight", upstream=name)),
        window=int(after.total("fastqps_upstream_window", upstream=name)),
        saturation=after.total("fastqps_upstream_utilization_ratio", upstream=name),
        rtt_s=after.total("fastqps_upstream_rtt_seconds", upstream=name) or None,
        rates=_rates(counts, 1 / max(change.seconds, 1e-9)),
    )


def _stages(change: Difference, names: list[str]) -> tuple[Stage, ...]:
    found = []
    for name in names:
        spent = change.histogram("fastqps_stage_duration_seconds", stage=name)
        found.append(Stage(name, spent.mean or 0.0, spent.quantile(0.99) or 0.0))
    return tuple(found)
