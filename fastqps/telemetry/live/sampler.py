"""Samples the server once a second even if nobody watches, so that a page that is opened during an incident shows its
beginning."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from fastqps.telemetry.live.counts import Counts
from fastqps.telemetry.live.now import look
from fastqps.telemetry.live.seen import Seen

HISTORY_S = 300
# One line of the history: what the page draws over time.
COLUMNS = ("at", "ok", "other", "p50", "p99", "waiting", "running", "active", "saturation")


class Sampler:
    """``now`` and ``history`` are ready-made answers. ``load``: how much of its capacity the server uses, if that is
    known."""

    def __init__(self, seen: Seen, load: Callable[[], Mapping[str, Any] | None]) -> None:
        self._seen = seen
        self._load = load
        self._before = Counts.read(seen)
        self._lines: deque[list[float | None]] = deque(maxlen=HISTORY_S)
        self.now = b"null"

    def sample(self) -> None:
        """Once a second."""
        after = Counts.read(self._seen)
        found = look(self._seen, self._before, after, self._load())
        self._before = after
        self._lines.append(_line(found))
        self.now = json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()

    def history(self) -> bytes:
        """The last minutes, oldest first."""
        return json.dumps({"columns": COLUMNS, "lines": list(self._lines)}, separators=(",", ":")).encode()


def _line(found: Mapping[str, Any]) -> list[float | None]:
    codes, latency, load = found["codes"], found["latency"], found["load"]
    active = [device["active"] for device in found["devices"]]
    return [
        found["at"],
        codes.get("OK", 0.0),
        round(sum(rate for code, rate in codes.items() if code != "OK"), 3),
        latency["p50"],
        latency["p99"],
        sum(model["waiting"] for model in found["models"]),
        found["running"],
        round(sum(active) / len(active), 4) if active else None,
        load["saturation"] if load else None,
    ]
