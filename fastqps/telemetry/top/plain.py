"""The view as lines of ``name=value``, for a file or a pipe: one for the server, one for each of its parts."""

from __future__ import annotations

import time
from collections.abc import Iterator

from fastqps.telemetry.live.view import View
from fastqps.telemetry.top.watch import Ticks, Watch


def follow(watch: Watch, interval_s: float, *, once: bool) -> None:
    """Prints the lines of each interval; of the first one, if ``once``. Raises ``FetchError`` if that one fails."""
    ticks = Ticks(interval_s)
    while True:
        ticks.wait()
        watch.look(raising=once)
        now = time.strftime("%H:%M:%S")
        for line in _lines(watch):
            print(f"{now} {line}", flush=True)
        if once and watch.view:
            return


def _lines(watch: Watch) -> Iterator[str]:
    if watch.trouble:
        yield f"server {watch.trouble}"
    elif watch.view is None:
        yield "server restarted"
    else:
        yield from lines(watch.view)


def lines(view: View) -> Iterator[str]:
    """Times in microseconds, rates per second, shares of 1. What is not known is left out."""
    load = view.load
    yield _line(
        "server",
        rate=float(sum(view.codes.values())),
        **{f"rate_{code}": rate for code, rate in view.codes.items()},
        calls=view.calls,
        p50_us=view.latency.p50,
        p99_us=view.latency.p99,
        in_flight=view.in_flight,
        running=view.running,
        slots_used=view.slots_used,
        **{f"refused_{reason}": rate for reason, rate in view.refused.items()},
        expired=view.expired or None,
        **{f"restarts_{role}": n for role, n in view.restarts.items()},
        capacity=load["capacity"] if load else None,
        saturation=load["saturation"] if load else None,
        saturation_cause=load["cause"] if load else None,
        headroom=load["headroom"] if load else None,
    )
    for model in view.models:
        generates = model.cache_slots > 0
        yield _line(
            f"model {model.name}",
            waiting=model.waiting,
            **{f"waiting_{kind}": n for kind, n in model.waiting_by_class.items()},
            oldest_us=model.oldest,
            batch_items=model.batch_items,
            batch_tokens=model.batch_tokens,
            fill=model.fill,
            tokens_per_s=model.tokens_made,
            cache_slots_used=model.cache_used if generates else None,
            cache_slots=model.cache_slots if generates else None,
        )
    for device, active in view.devices.items():
        yield _line(f"device {device}", active=active)
    for d in view.dispatchers:
        yield _line(
            f"dispatcher {d.index}",
            device=d.device,
            model=d.model,
            ready=int(d.ready),
            busy=d.busy,
            **{f"idle_{reason}": share for reason, share in d.idle.items()},
            steps_per_s=d.steps,
        )
    for each in view.upstreams:
        yield _line(
            f"upstream {each.name}",
            state=each.state,
            in_flight=each.in_flight,
            window=each.window,
            saturation=each.utilization,
            rtt_us=each.rtt,
            **each.rates,
        )
    yield _line("stages", **{f"{name}_us": spent.mean for name, spent in view.stages.items()})


def _line(what: str, **values: float | int | str | None) -> str:
    return " ".join([what, *(f"{name}={_value(value)}" for name, value in values.items() if value is not None)])


def _value(value: float | int | str) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
    return str(value)
