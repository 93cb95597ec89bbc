"""One pod's measured signals at each load, which connect a real server with the simulated cluster.

``fastqps bench signals`` writes such a file. Between its levels everything runs in straight lines; beyond the last
one a pod does what it did there, and refuses the rest.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fastqps.errors import ConfigError

SCHEMA_VERSION = 1
LEVELS_MIN, LEVELS_MAX = 4, 200
SIGNALS = ("saturation", "evidence", "cpu", "duty", "waiting", "in_flight", "queue_wait_s", "rate")
_TEXTS = ("model", "device", "measured", "commit", "command")


@dataclass(frozen=True)
class Level:
    """A steady load. ``offered`` and ``answered``: items per second; ``good``: share of what was offered that was
    answered within the SLO; ``waiting``: items in the queue; ``signals``: by name, as SIGNALS has them. ``evidence`` is
    the saturation without the load that is offered: the most that the server's own state says."""

    offered: float
    answered: float
    good: float
    p99_us: float
    signals: Mapping[str, float]

    @property
    def waiting(self) -> float:
        return self.signals["waiting"]


@dataclass(frozen=True)
class Recording:
    """One pod, from almost nothing to far beyond its knee. ``capacity``: the most items per second within the SLO;
    ``cpus``: that it may use."""

    model: str
    device: str
    capacity: float
    cpus: float
    slo_us: float
    levels: tuple[Level, ...]
    measured: str = ""
    commit: str = ""
    command: str = ""

    def as_json(self) -> dict[str, Any]:
        """The content of its file."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}


def read_recording(path: str) -> Recording:
    """Reads a recording from a file. Raises ``ConfigError`` if it cannot be used."""
    try:
        found = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise ConfigError(f"--recording: cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise ConfigError(f"--recording: {path} is not JSON") from None
    try:
        return recording_of(found)
    except ValueError as error:
        raise ConfigError(f"--recording: {path}: {error}") from None


def recording_of(found: Any) -> Recording:
    """Makes a recording of a file's content. Raises ``ValueError`` if it is invalid."""
    if not isinstance(found, dict) or "levels" not in found:
        raise ValueError("is no recording; fastqps bench signals writes one")
    if found.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(f"has schema version {found.get('schema_version')}, this version reads {SCHEMA_VERSION}")
    numbers: dict[str, Any] = {key: _number(found.get(key), key, above=0.0) for key in ("capacity", "cpus", "slo_us")}
    texts: dict[str, Any] = {key: found.get(key, "") for key in _TEXTS}
    if wrong := next((key for key, value in texts.items() if not isinstance(value, str)), None):
        raise ValueError(f"{wrong} is not text")
    rows = found["levels"]
    if not isinstance(rows, list) or not LEVELS_MIN <= len(rows) <= LEVELS_MAX:
        raise ValueError(f"levels is not a list of {LEVELS_MIN} to {LEVELS_MAX}")
    levels = tuple(_level(row, f"levels[{k}]") for k, row in enumerate(rows))
    check_levels(levels, numbers["capacity"])
    return Recording(**texts, **numbers, levels=levels)


def check_levels(levels: Sequence[Level], capacity: float) -> None:
    """``ValueError`` where they do not reach from well below the capacity to beyond it."""
    offered = [level.offered for level in levels]
    if offered != sorted(set(offered)):
        raise ValueError("levels: each has to offer more than the one before")
    if offered[0] > 0.5 * capacity or offered[-1] < 1.2 * capacity:
        raise ValueError(
            f"levels reach from {offered[0]:,.0f}/s to {offered[-1]:,.0f}/s; they have to reach from at most half of "
            f"the capacity of {capacity:,.0f}/s to at least 1.2 times as much"
        )


def _level(row: Any, where: str) -> Level:
    if not isinstance(row, dict) or not isinstance(row.get("signals"), dict):
        raise ValueError(f"{where} is no level")
    # In older recordings the saturation was all evidence.
    found = {"evidence": row["signals"].get("saturation"), **row["signals"]}
    signals = {name: _number(found.get(name), f"{where}.signals.{name}") for name in SIGNALS}
    good = _number(row.get("good"), f"{where}.good")
    if good > 1:
        raise ValueError(f"{where}.good is {good:g}, more than 1")
    offered = _number(row.get("offered"), f"{where}.offered", above=0.0)
    answered = _number(row.get("answered"), f"{where}.answered", above=0.0)
    return Level(offered, answered, good, _number(row.get("p99_us"), f"{where}.p99_us"), signals)


def _number(value: Any, name: str, above: float | None = None) -> float:
    if (
        type(value) not in (int, float)
        or not math.isfinite(value)
        or value < 0
        or (above is not None and value <= above)
    ):
        shown = "missing" if value is None else json.dumps(value)[:40]
        raise ValueError(f"{name} is {shown}, not a number {'above 0' if above is not None else 'of 0 or more'}")
    return float(value)
