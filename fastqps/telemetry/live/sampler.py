"""Samples the server once a second even if nobody watches, so that a page that is opened during an incident shows its
beginning."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from fastqps.telemetry.live.counts import Counts, Seen, read_counts
from fastqps.telemetry.live.view import View, view
from fastqps.telemetry.metrics.meter import Load

HISTORY_S = 300
# One line of the history, which each answer brings, too: what the page draws over time.
COLUMNS = ("at", "ok", "other", "p50", "p99", "waiting", "running", "active", "saturation")


class Sampler:
    """``now`` is a ready-made answer, as ``history`` and ``counts`` are. ``load``: how much of its capacity the server
    uses, if that is known."""

    def __init__(self, seen: Seen, load: Callable[[], Load | None]) -> None:
        self._seen = seen
        self._load = load
        self._started = time.time()
        self._before = self._read()
        self._lines: deque[list[float | None]] = deque(maxlen=HISTORY_S)
        self.now = b"null"

    def sample(self) -> None:
        """Once a second."""
        after = self._read()
        current = view(self._before, after)
        self._before = after
        self._lines.append(_line(current))
        self.now = _json({**asdict(current), "line": self._lines[-1]})

    def history(self) -> bytes:
        """The last minutes, oldest first."""
        return _json({"columns": COLUMNS, "lines": list(self._lines)})

    def counts(self) -> bytes:
        """The counters at this moment."""
        return _json(self._read())

    def _read(self) -> Counts:
        return read_counts(self._seen, self._started, self._load())


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _line(current: View) -> list[float | None]:
    active = current.devices.values()
    return [
        current.at,
        current.codes.get("OK", 0.0),
        round(sum(rate for code, rate in current.codes.items() if code != "OK"), 3),
        current.latency.p50,
        current.latency.p99,
        sum(model.waiting for model in current.models),
        current.running,
        round(sum(active) / len(active), 4) if active else None,
        current.load["saturation"] if current.load else None,
    ]
