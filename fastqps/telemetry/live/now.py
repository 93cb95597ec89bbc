"""The activity of a server between two readings of its counters, as the page shows it. Times in µs, rates per second,
shares of 1; None: there was nothing to say it from."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from fastqps import __version__
from fastqps._core import CLASSES, now_ns
from fastqps.api.codes import CODES
from fastqps.telemetry.live.counts import Counts, DispatcherCounts
from fastqps.telemetry.live.seen import Seen
from fastqps.telemetry.live.spread import Spread
from fastqps.telemetry.metrics.upstream_rows import EVENTS, Upstream

_US = 1e-3  # of nanoseconds
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


def look(seen: Seen, before: Counts, after: Counts, load: Mapping[str, Any] | None) -> dict[str, Any]:
    """The whole answer of ``/live.json``. ``load``: how much of its capacity the server uses, as the metrics say."""
    seconds = max(1e-9, (after.at_ns - before.at_ns) * 1e-9)
    found, lines = seen.readiness(), seen.segment.doors()
    request = Spread(before.request, after.request)
    return {
        "at": round(time.time(), 3),
        "seconds": round(seconds, 3),
        "version": __version__,
        "device": seen.device,
        "ready": not found.reasons,
        "reasons": list(found.reasons),
        "degraded": list(found.degraded),
        "restarts": seen.restarts(),
        "codes": {
            code: rate
            for code, then, now in zip(CODES, before.by_code, after.by_code, strict=True)
            if (rate := _rate(int(then), int(now), seconds))
        },
        "calls": _rate(before.calls, after.calls, seconds),
        "refused": {
            reason: rate
            for reason, count in after.rejected.items()
            if (rate := _rate(before.rejected[reason], count, seconds))
        },
        "expired": _rate(before.expired, after.expired, seconds),
        "latency": {name: _us(request.quantile(q)) for name, q in QUANTILES.items()} | {"mean": _us(request.mean)},
        "in_flight": _rate(before.inflight_ns, after.inflight_ns, seconds * 1e9),
        "running": sum(line.running for line in lines),
        "slots_used": sum(line.slots_used for line in lines),
        "slots": len(lines) * seen.segment.sizes.slots,
        "load": load,
        "models": [_model(seen, i, before, after, seconds) for i in range(len(seen.models))],
        "stages": [_stage(name, before, after) for name in after.stages],
        "devices": [
            {"name": name, "active": _share(before.active_ns[i], after.active_ns[i], seconds)}
            for i, name in enumerate(seen.devices)
        ],
        "dispatchers": _dispatchers(seen, before, after, seconds),
        "doors": [
            {
                "index": i,
                "ready": serves,
                "connections": line.connections,
                "received": _rate(then[0], now[0], seconds),
                "sent": _rate(then[1], now[1], seconds),
            }
            for i, (serves, line, then, now) in enumerate(
                zip(seen.doors(), lines, before.bytes, after.bytes, strict=True)
            )
        ],
        "upstreams": [_upstream(found, before, seconds) for found in after.upstreams],
    }


def _model(seen: Seen, model: int, before: Counts, after: Counts, seconds: float) -> dict[str, Any]:
    route = seen.route_of(model)
    then, now = before.batches[model], after.batches[model]
    found, at_ns = seen.segment.waiting(route), now_ns()
    limits, room = seen.segment.route(route), now.step_room - then.step_room
    return {
        "name": seen.models[model],
        "version": limits.version,
        "waiting": sum(count for count, _ in found),
        "waiting_by_class": {kind: count for kind, (count, _) in zip(CLASSES, found, strict=True) if count},
        "oldest": max(max(0.0, (at_ns - since) * _US) if since else 0.0 for _, since in found),
        "batch_items": _short(Spread(then.items, now.items).mean),
        "fill": _short((now.step_tokens - then.step_tokens) / room) if room > 0 else None,
        "tokens_made": _rate(then.tokens_made, now.tokens_made, seconds) if limits.cache_slots else None,
    }


def _upstream(now: Upstream, before: Counts, seconds: float) -> dict[str, Any]:
    """A server that an edge sends to."""
    then = next((each.counts for each in before.upstreams if each.name == now.name), now.counts)
    return {
        "name": now.name,
        "state": now.state,
        "reason": now.reason,
        "in_flight": now.in_flight,
        "window": now.window,
        "utilization": round(now.utilization, 3),
        "waiting": now.waiting,
        "running": now.running,
        "rtt": _us(now.rtt_ns) if now.rtt_ns else None,
        **{event: _rate(then[event], now.counts[event], seconds) for event in EVENTS},
        "sent_bytes": _rate(then["bytes_out"], now.counts["bytes_out"], seconds),
        "received_bytes": _rate(then["bytes_in"], now.counts["bytes_in"], seconds),
    }


def _stage(name: str, before: Counts, after: Counts) -> dict[str, Any]:
    spent = Spread(before.stages[name], after.stages[name])
    return {"name": name, "mean": _us(spent.mean), "p99": _us(spent.quantile(0.99))}


def _dispatchers(seen: Seen, before: Counts, after: Counts, seconds: float) -> list[dict[str, Any]]:
    found = []
    for i, serves in seen.filled().items():
        then, now = before.dispatchers[i], after.dispatchers[i]
        busy, idle = _time(then, now)
        found.append(
            {
                "index": i,
                "model": seen.models[seen.model_of(i)],
                "device": seen.devices[seen.device_of(i)],
                "ready": serves,
                "steps": _rate(then.steps, now.steps, seconds),
                "items": _rate(then.step_items, now.step_items, seconds),
                "busy": busy,
                "idle": idle,
            }
        )
    return found


def _time(then: DispatcherCounts, now: DispatcherCounts) -> tuple[float | None, dict[str, float]]:
    """Shares of the time that the dispatcher accounts for: a step that is under way counts when it is over."""
    busy = max(0, now.busy_ns - then.busy_ns)
    idle = {reason: max(0, ns - then.idle_ns[reason]) for reason, ns in now.idle_ns.items()}
    whole = busy + sum(idle.values())
    if not whole:
        return None, {}
    return round(busy / whole, 4), {reason: round(ns / whole, 4) for reason, ns in idle.items() if ns}


def _rate(then: int, now: int, seconds: float) -> float:
    return round(max(0, now - then) / seconds, 3)


def _share(then: int, now: int, seconds: float) -> float:
    return round(min(1.0, max(0, now - then) * 1e-9 / seconds), 4)


def _us(ns: float | None) -> float | None:
    return None if ns is None else round(ns * _US, 1)


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
