"""A capacity file: what a deployment can do within its SLO, as ``fastqps bench find-max`` has measured it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastqps.errors import ConfigError

SCHEMA_VERSION = 1
BYTES_MAX = 1 << 20
LEAST, MOST = 1e-12, 1e15  # of any number in it: what is made of them stays one
_TEXTS = ("model", "version", "device", "measured", "commit", "command")
_NUMBERS = ("rate", "in_flight")
_A_NUMBER = f"not a number within {LEAST:g} to {MOST:g}"


@dataclass(frozen=True)
class Capacity:
    """Of one model at one version on one device with these settings. ``rate``: items per second at the knee, where
    more load would break the SLO; ``in_flight``: items at a time at that rate."""

    model: str
    version: str
    device: str
    settings: Mapping[str, Any]  # by key, as on the command line
    rate: float
    in_flight: float
    measured: str  # UTC, ISO 8601
    commit: str
    command: str
    slo_p99_s: float | None = None  # that was kept; None: the SLO said nothing of it
    # What the server said of itself there: queue_wait_p95_s; the busiest dispatcher's, frontdoor's and device's share
    # of the time.
    at_knee: Mapping[str, float] = field(default_factory=dict)

    def check(self, model: str, version: str, device: str) -> None:
        """Raises ``ConfigError`` where what is served is not what was measured."""
        for what, own, served in (
            ("model", f"{self.model}@{self.version}", f"{model}@{version}"),
            ("device", self.device, device),
        ):
            if own != served:
                raise ConfigError(f"--capacity: measured with the {what} {own}, but this is {served}: measure again")


def read_capacity(path: str) -> Capacity:
    """The file's content. ``ConfigError`` says why it cannot be used."""
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(BYTES_MAX + 1)
        if len(data) > BYTES_MAX:
            raise ConfigError(f"--capacity: {path} is longer than {BYTES_MAX} bytes, which no capacity file is")
        found = json.loads(data)
    except OSError as error:
        raise ConfigError(f"--capacity: cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise ConfigError(f"--capacity: {path} is not JSON") from None
    try:
        return _checked(found)
    except ValueError as error:
        raise ConfigError(f"--capacity: {path}: {error}") from None


def _checked(found: Any) -> Capacity:
    if not isinstance(found, dict) or "rate" not in found:
        raise ValueError("is no capacity file; fastqps bench find-max writes one")
    if found.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(f"has schema version {found.get('schema_version')}, this version reads {SCHEMA_VERSION}")
    texts: dict[str, Any] = {key: found.get(key) for key in _TEXTS}
    if wrong := next((key for key, value in texts.items() if not isinstance(value, str)), None):
        raise ValueError(f"{wrong} is {_shown(texts[wrong])}, not text")
    numbers: dict[str, Any] = {key: found.get(key) for key in _NUMBERS}
    if wrong := next((key for key, value in numbers.items() if not _is_sane(value)), None):
        raise ValueError(f"{wrong} is {_shown(numbers[wrong])}, {_A_NUMBER}")
    settings = found.get("settings")
    if not isinstance(settings, dict):
        raise ValueError(f"settings is {_shown(settings)}, not an object")
    p99_us = _object(found, "slo").get("p99_us")
    if p99_us is not None and not _is_sane(p99_us):
        raise ValueError(f"slo.p99_us is {_shown(p99_us)}, {_A_NUMBER}")
    at_knee = _object(found, "at_knee")
    for key, value in at_knee.items():
        if value != 0 and not _is_sane(value):
            raise ValueError(f"at_knee.{key[:40]} is {_shown(value)}, not a number")
    return Capacity(**texts, **numbers, settings=settings, slo_p99_s=p99_us and p99_us * 1e-6, at_knee=at_knee)


def _object(found: dict[str, Any], key: str) -> dict[str, Any]:
    """Of older files it is not there."""
    value = found.get(key) or {}
    if not isinstance(value, dict):
        raise ValueError(f"{key} is {_shown(value)}, not an object")
    return value


def _is_sane(value: Any) -> bool:
    return type(value) in (int, float) and LEAST <= value <= MOST


def _shown(value: Any) -> str:
    return "missing" if value is None else json.dumps(value)[:40]
