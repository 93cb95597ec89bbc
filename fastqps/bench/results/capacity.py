"""capacity.json: what a deployment can do within its SLO. ``serve --capacity`` takes it as the measure of its load."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastqps.bench.results.point import BEYOND_MIN, Point
from fastqps.bench.results.result import BenchError, Result
from fastqps.errors import ConfigError
from fastqps.telemetry.capacity import SCHEMA_VERSION, read_capacity
from loadgen.atomic_file import replace_file

CAPACITY = "capacity.json"
WAIT = "queue_wait_p95_s"
WAITS_MIN = round(BEYOND_MIN / 0.05)  # answers without which a p95 is not worth a number


def capacity_of(result: Result, point: Point, below: Sequence[Point] = ()) -> dict[str, Any]:
    """The content of a capacity file. ``rate`` and ``in_flight`` count items, of which a batch call has many.
    ``below``: points of less load, the least first."""
    target, items = result.target, point.load.get("items_per_call", 1)
    return {
        "schema_version": SCHEMA_VERSION,
        "model": target.get("model"),
        "version": target.get("version"),
        "device": target.get("device"),
        "settings": target.get("settings", {}) | point.settings,
        "slo": result.slo,
        "rate": items * point.rate,
        "in_flight": _in_flight(point),
        "at_knee": point.at_limit,
        "below_knee": [_row(less, less.rate / point.rate) for less in rising(point, below)],
        "p99_us": point.p99_us,
        "measured": point.started,
        "commit": result.commit,
        "command": result.command,
    }


def rising(point: Point, below: Sequence[Point]) -> list[Point]:
    """Those of ``below`` that were loads of their own: what came is chance, and at some requests per second the one
    that should have been more may have been less. A share is of what came, for so is all that was seen with it."""
    points: list[Point] = []
    for less in below:
        if (points[-1].rate if points else 0.0) < less.rate < point.rate:
            points.append(less)
    return points


def _row(less: Point, share: float) -> dict[str, float]:
    seen = {name: value for name, value in less.at_limit.items() if name != WAIT or less.answers >= WAITS_MIN}
    return {"share": share, "in_flight": _in_flight(less), **seen}


def _in_flight(point: Point) -> float:
    if point.in_flight is not None:
        return point.in_flight
    # By Little's law, seen from the client.
    return float(point.load.get("items_per_call", 1)) * point.rate * (point.response_time_us.get("mean") or 0.0) * 1e-6


def write_capacity(result: Result, point: Point, folder: Path, below: Sequence[Point] = ()) -> Path:
    """Writes FOLDER/capacity.json and returns its path."""
    path = folder / CAPACITY
    try:
        return replace_file(path, json.dumps(capacity_of(result, point, below), indent=1) + "\n")
    except OSError as error:
        raise BenchError(f"cannot write {path}: {error.strerror}") from None


def read_rate(text: str) -> float:
    """Items per second, from a capacity file or as a plain number. Raises ``ConfigError``."""
    try:
        rate = float(text)
    except ValueError:
        return read_capacity(text).rate
    if not 0 < rate < 1e9:
        raise ConfigError(f"--capacity {text}: a capacity of {rate:g}/s is not possible")
    return rate
