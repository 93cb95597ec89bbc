"""The view as lines of ``name=value``, for a file or a pipe: one for the server, one for each of its parts."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

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
    """All figures, by the names of the view's fields: times in µs, rates per second, shares of 1. What is not known is
    left out, and a text that is no single word has no place in a line."""
    for what, part in _parts(asdict(view)):
        yield " ".join([what, *(f"{name}={_value(value)}" for name, value in _figures(part))])


def _parts(server: dict[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    parts = [
        (f"{kind} {part.pop('name' if 'name' in part else 'index')}", part)
        for kind in ("model", "dispatcher", "door", "upstream")
        for part in server.pop(f"{kind}s")
    ]
    stages, devices = server.pop("stages"), server.pop("devices")
    yield "server", {"rate": float(sum(server["codes"].values())), **server}
    yield from ((f"device {name}", {"active": active}) for name, active in devices.items())
    yield from parts
    yield "stages", stages


def _figures(value: Any, name: str = "") -> Iterator[tuple[str, float | int | str]]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _figures(each, f"{name}_{key}" if name else key)
    elif isinstance(value, int | float) or (isinstance(value, str) and len(value.split()) == 1):
        yield name, value


def _value(value: float | int | str) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
    return str(int(value) if isinstance(value, bool) else value)
