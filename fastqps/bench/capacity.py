"""capacity.json: what a deployment can do within its SLO. ``serve --capacity`` takes it as the measure of its load."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fastqps.bench.point import Point
from fastqps.bench.result import BenchError, Result
from fastqps.errors import ConfigError

CAPACITY = "capacity.json"
SCHEMA_VERSION = 1


def capacity_of(result: Result, point: Point) -> dict[str, Any]:
    """What the file holds. ``in_flight``: calls at a time at that rate, by Little's law."""
    mean_us = point.response_time_us.get("mean") or 0.0
    target = result.target
    return {
        "schema_version": SCHEMA_VERSION,
        "model": target.get("model"),
        "version": target.get("version"),
        "device": target.get("device"),
        "settings": target.get("settings", {}) | point.settings,
        "slo": result.slo,
        "rate": point.rate,
        "in_flight": point.rate * mean_us * 1e-6,
        "p99_us": point.p99_us,
        "measured": point.started,
        "commit": result.commit,
        "command": result.command,
    }


def write_capacity(result: Result, point: Point, folder: Path) -> Path:
    """Writes FOLDER/capacity.json; its path."""
    path = folder / CAPACITY
    try:
        path.write_text(json.dumps(capacity_of(result, point), indent=1) + "\n")
    except OSError as error:
        raise BenchError(f"cannot write {path}: {error.strerror}") from None
    return path


def read_rate(text: str) -> float:
    """Calls per second from a capacity file, or as a plain number. Raises ``ConfigError``."""
    try:
        rate = float(text)
    except ValueError:
        rate = _from_file(Path(text))
    if not 0 < rate < 1e9:
        raise ConfigError(f"--capacity {text}: a capacity of {rate:g}/s is not possible")
    return rate


def _from_file(path: Path) -> float:
    try:
        return float(json.loads(path.read_text())["rate"])
    except OSError as error:
        raise ConfigError(f"--capacity: cannot read {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise ConfigError(f"--capacity: {path} is no capacity file: it has no rate") from None
