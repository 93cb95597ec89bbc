"""A capacity file: what a deployment can do within its SLO, as ``fastqps bench find-max`` has measured it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fastqps.errors import ConfigError
from fastqps.files.documents import parse_json
from fastqps.files.regular import read_regular

SCHEMA_VERSION = 1
BYTES_MAX = 1 << 20
SHOWN_MAX = 100  # characters of a text
BELOW_MAX = 8  # loads below the knee
LEAST, MOST = 1e-12, 1e15  # of any number in it: what is made of them stays one
_TEXTS = ("model", "version", "device", "measured", "commit", "command")
_NUMBERS = ("rate", "in_flight")
_A_NUMBER = f"not a number within {LEAST:g} to {MOST:g}"


@dataclass(frozen=True)
class Capacity:
    """The capacity of one version of a model on one device with these settings. ``rate``: items per second at the knee,
    where more load would break the SLO; ``in_flight``: items at a time at that rate."""

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
    # Signals of the server at the knee: queue_wait_p95_s; the busiest dispatcher's and frontdoor's share of the
    # time; device_load, the share of it that the most used device would need for its work in full batches.
    at_knee: Mapping[str, float] = field(default_factory=dict)
    # The same, and in_flight, of smaller loads, the smallest first; share: of ``rate``. Older files have none.
    below_knee: tuple[Mapping[str, float], ...] = ()

    def check(self, model: str, device: str) -> None:
        """Raises ``ConfigError`` where what is served is not what was measured. Another version of the model is: a
        server that has reloaded it keeps its capacity, and one that is started then must not be worse off."""
        for what, own, served in (("model", self.model, model), ("device", self.device, device)):
            if own != served:
                then = _plain(own)
                raise ConfigError(f"--capacity: measured with the {what} {then}, but this is {served}: measure again")

    def doubt(self, version: str) -> str:
        """A warning if another version of the model was measured; "" if it was this one."""
        return (
            ""
            if version == self.version
            else (f"--capacity was measured with version {_plain(self.version)}, not {version}: measure again")
        )


def read_capacity(path: str) -> Capacity:
    """Reads a capacity file. Raises ``ConfigError`` if it cannot be used."""
    try:
        document = parse_json(read_regular(path, BYTES_MAX))
    except OSError as error:
        raise ConfigError(f"--capacity: cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"--capacity: {path} is not JSON: {error}") from None
    try:
        return _checked(document)
    except ValueError as error:
        raise ConfigError(f"--capacity: {path}: {error}") from None


def _checked(document: Any) -> Capacity:
    if not isinstance(document, dict) or "rate" not in document:
        raise ValueError("is no capacity file; fastqps bench find-max writes one")
    if document.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(
            f"has schema version {_plain(str(document.get('schema_version')))}, this version reads {SCHEMA_VERSION}"
        )
    own: dict[str, Any] = {key: document.get(key) for key in (*_TEXTS, *_NUMBERS, "settings")}
    for key in _TEXTS:
        _hold(isinstance(own[key], str), key, own[key], "not text")
    for key in _NUMBERS:
        _hold(_is_sane(own[key]), key, own[key], _A_NUMBER)
    _hold(isinstance(own["settings"], dict), "settings", own["settings"], "not an object")
    slo = document.get("slo") or {}
    _hold(isinstance(slo, dict), "slo", slo, "not an object")
    p99_us = slo.get("p99_us")
    _hold(p99_us is None or _is_sane(p99_us), "slo.p99_us", p99_us, _A_NUMBER)
    at_knee = _figures(document.get("at_knee") or {}, "at_knee")  # older files lack it
    return Capacity(
        **own, slo_p99_s=p99_us and p99_us * 1e-6, at_knee=at_knee,
        below_knee=_below_knee(document.get("below_knee", [])),
    )  # fmt: skip


def _below_knee(rows: Any) -> tuple[dict[str, float], ...]:
    fits = isinstance(rows, list) and len(rows) <= BELOW_MAX
    _hold(fits, "below_knee", rows, f"not a list of at most {BELOW_MAX}")
    before = 0.0
    for k, row in enumerate(rows):
        share = _figures(row, f"below_knee[{k}]").get("share", 0)
        _hold(before < share < 1, f"below_knee[{k}].share", share, f"not above {before:g} and below 1")
        before = share
    return tuple(rows)


def _figures(figures: Any, where: str) -> dict[str, float]:
    _hold(isinstance(figures, dict), where, figures, "not an object")
    for key, value in figures.items():
        _hold(value == 0 or _is_sane(value), f"{where}.{_plain(key)}", value, _A_NUMBER)
    checked: dict[str, float] = figures
    return checked


def _hold(fits: bool, what: str, value: Any, wrong: str) -> None:
    if not fits:
        raise ValueError(f"{what} is {_shown(value)}, {wrong}")


def _is_sane(value: Any) -> bool:
    return type(value) in (int, float) and LEAST <= value <= MOST


def _plain(text: str) -> str:
    """A text of the file for one line of a terminal."""
    cut = text if len(text) <= SHOWN_MAX else f"{text[: SHOWN_MAX - 1]}…"
    return cut if cut.isprintable() else ascii(cut)


def _shown(value: Any) -> str:
    return "missing" if value is None else _plain(json.dumps(value))
