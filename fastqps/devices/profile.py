"""The cost of steps on a modelled device: a TOML file, shipped, written by hand, or by ``fastqps bench calibrate``."""

from __future__ import annotations

import difflib
import json
import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from fastqps.devices.errors import DeviceError
from fastqps.errors import ConfigError
from fastqps.files.documents import parse_toml
from fastqps.files.regular import read_regular
from fastqps.models.card import ModelCard
from fastqps.runners.kinds import kind_of_task, step_kind

SHIPPED = Path(__file__).parents[1] / "data" / "profiles"
STATUSES = ("estimated", "measured")
TASKS = ("embed", "classify", "classify_tokens", "embed_sparse", "embed_multi", "generate")
NAME_MAX = 60
TEXT_MAX = 4000
FIXED_US_MAX = 5e6
COST_US_MAX = 1e6
TABLE_MAX = 256
TOKENS_MAX = 1 << 20
_BYTES_MAX = 1 << 20


@dataclass(frozen=True)
class Profile:
    """A device and a model, as far as a step's time goes. All times in µs.

    A step of T tokens and S items (of a generator: T rows, S sampled ones) that has the device for itself takes
    ``fixed_us + per_token_us * T + per_item_us * S``; with a ``table`` of (tokens, µs), straight lines between its
    points stand for the second term. Steps of other dispatchers and lanes can make use of ``overlap`` of ``fixed_us``.
    """

    name: str
    status: str  # one of STATUSES
    source: str  # where the figures are from
    gpu: str
    model: str
    task: str  # one of TASKS
    fixed_us: float
    per_token_us: float
    per_item_us: float
    overlap: float  # 0 to 1
    table: tuple[tuple[float, float], ...] = ()
    launch_us: float = 0.0  # CPU time of the thread that launches a step

    def step_us(self, tokens: int, items: int) -> float:
        """The time of a step that has the device for itself."""
        return self.fixed_us + self._tokens_us(tokens) + self.per_item_us * items

    def _tokens_us(self, tokens: int) -> float:
        if not self.table:
            return self.per_token_us * tokens
        if tokens <= self.table[0][0] or len(self.table) == 1:
            return self.table[0][1]
        i = next((i for i in range(1, len(self.table) - 1) if self.table[i][0] >= tokens), len(self.table) - 1)
        (x0, y0), (x1, y1) = self.table[i - 1 : i + 1]
        return y0 + (tokens - x0) * (y1 - y0) / (x1 - x0)


def load_profile(named: str) -> Profile:
    """``named``: a shipped profile (``h200-minilm-l6``), or a path. ``DeviceError``: there is none of that name."""
    path = Path(named)
    if "/" not in named and not named.endswith(".toml"):
        path = SHIPPED / f"{named}.toml"
        if not path.is_file():
            names = shipped()
            close = difflib.get_close_matches(named, names, n=1, cutoff=0.6)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise DeviceError(
                f"device sim:{named}: no such profile{hint} (shipped: {', '.join(names)}; or the path of a .toml file)"
            )
    try:
        found = parse_toml(read_regular(path, _BYTES_MAX))
    except OSError as error:
        raise DeviceError(f"device sim:{named}: cannot read the profile {path}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    return _Reader(str(path), found).profile()


def check_task(card: ModelCard, profile: Profile) -> None:
    """``ConfigError`` where a generator's steps would be timed as an encoder's, or the other way round."""
    if step_kind(card) != kind_of_task(profile.task):
        raise ConfigError(
            f"device sim:{profile.name} models steps of the task {profile.task} ({profile.model}); the task of "
            f"{card.name} is {card.task}"
        )


def shipped() -> list[str]:
    """The names of the profiles that come with the package."""
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def write_profile(profile: Profile, path: Path) -> None:
    """Writes a profile for ``load_profile``. Raises ``ConfigError`` if it cannot be written."""
    lines = [f"{key} = {json.dumps(getattr(profile, key), ensure_ascii=False)}" for key in _TEXTS]
    lines += ["", "[step]", f"fixed_us = {profile.fixed_us:.10g}"]
    if profile.table:
        lines.append(f"table = [{', '.join(f'[{tokens:.10g}, {us:.10g}]' for tokens, us in profile.table)}]")
    else:
        lines.append(f"per_token_us = {profile.per_token_us:.10g}")
    lines += [f"per_item_us = {profile.per_item_us:.10g}", f"overlap = {profile.overlap:.10g}"]
    lines += ["", "[host]", f"launch_us = {profile.launch_us:.10g}"]
    text = "\n".join(lines) + "\n"
    _Reader(str(path), parse_toml(text.encode())).profile()  # a profile that could not be read again is not written
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write the profile {path}: {error.strerror}") from None


_TEXTS = ("name", "status", "source", "gpu", "model", "task")


class _Reader:
    """Takes known keys out of a document. Other keys are an error."""

    def __init__(self, file: str, document: dict[str, Any]) -> None:
        self._file = file
        self._left = dict(document)
        for section in ("step", "host"):
            found = self._left.pop(section, {})
            if not isinstance(found, dict):
                raise self._error(section, "must be a table: write its keys under [" + section + "]")
            self._left |= {f"{section}.{key}": value for key, value in found.items()}
        self._known: list[str] = []

    def profile(self) -> Profile:
        tabled = "step.table" in self._left
        found = Profile(
            name=self._name(),
            status=self._choice("status", STATUSES),
            source=self._text("source"),
            gpu=self._text("gpu", ""),
            model=self._text("model", ""),
            task=self._choice("task", TASKS),
            fixed_us=self._number("step.fixed_us", FIXED_US_MAX),
            per_token_us=self._number("step.per_token_us", COST_US_MAX, 0.0 if tabled else None),
            per_item_us=self._number("step.per_item_us", COST_US_MAX, 0.0),
            overlap=self._number("step.overlap", 1.0, 0.0),
            table=self._table("step.table"),
            launch_us=self._number("host.launch_us", COST_US_MAX, 0.0),
        )
        for key in self._left:
            close = difflib.get_close_matches(key, self._known, n=1, cutoff=0.6)
            raise ConfigError(f"{self._file}: unknown key {key!r}" + (f"; did you mean {close[0]!r}?" if close else ""))
        if found.table and found.per_token_us:
            raise self._error("step.per_token_us", "has no effect beside step.table; leave one of them out")
        if found.fixed_us + found.per_token_us + found.per_item_us == 0 and not any(us for _, us in found.table):
            raise self._error("step", "all costs are 0; a device that takes no time is --device null")
        return found

    def _take(self, key: str, default: Any) -> Any:
        self._known.append(key)
        if key not in self._left and default is None:
            raise ConfigError(f"{self._file}: the key {key!r} is missing")
        return self._left.pop(key, default)

    def _error(self, key: str, what: str) -> ConfigError:
        return ConfigError(f"{self._file}: {key}: {what}")

    def _text(self, key: str, default: str | None = None) -> str:
        value = self._take(key, default)
        if not isinstance(value, str) or len(value) > TEXT_MAX or (default is None and not value.strip()):
            raise self._error(key, f"must be a text of 1 to {TEXT_MAX} characters")
        return value

    def _name(self) -> str:
        name = self._text("name")
        if len(name) > NAME_MAX or not all(c.isalnum() or c in "-._" for c in name):
            raise self._error("name", f"{name!r} must be at most {NAME_MAX} letters, digits and -._")
        return name

    def _choice(self, key: str, choices: tuple[str, ...]) -> str:
        value = self._take(key, None)
        if value not in choices:
            raise self._error(key, f"{value!r} is not one of {', '.join(choices)}")
        return str(value)

    def _number(self, key: str, most: float, default: float | None = None) -> float:
        return self._checked(key, self._take(key, default), most)

    def _checked(self, key: str, value: Any, most: float) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise self._error(key, f"{value!r} is not a number")
        if not 0 <= value <= most:
            raise self._error(key, f"{value:g} is not within 0 to {most:g}")
        return float(value)

    def _table(self, key: str) -> tuple[tuple[float, float], ...]:
        rows = self._take(key, [])
        if not isinstance(rows, list) or any(not isinstance(row, list) or len(row) != 2 for row in rows):
            raise self._error(key, "must be a list of [tokens, µs]")
        if len(rows) > TABLE_MAX:
            raise self._error(key, f"has {len(rows)} rows; at most {TABLE_MAX}")
        points = tuple((self._checked(key, t, TOKENS_MAX), self._checked(key, us, FIXED_US_MAX)) for t, us in rows)
        for (before, less), (tokens, us) in pairwise(points):
            if tokens <= before:
                raise self._error(key, f"tokens must grow from row to row; {tokens:g} follows {before:g}")
            if us < less:
                raise self._error(key, f"more tokens must not cost less; {us:g} µs follow {less:g}")
        return points
