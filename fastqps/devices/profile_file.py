"""Files of profiles, in TOML: shipped, or written by hand."""

from __future__ import annotations

import dataclasses
import difflib
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

from fastqps._core import TASKS
from fastqps.devices.errors import DeviceError
from fastqps.devices.kernel_cost import Kernel, Peaks
from fastqps.devices.profile import Points, Profile
from fastqps.errors import ConfigError
from fastqps.files.documents import parse_toml
from fastqps.files.regular import read_regular

SHIPPED = Path(__file__).parents[1] / "data" / "profiles"
STATUSES = ("estimated", "measured")
NAME_MAX = 60
TEXT_MAX = 4000
FIXED_US_MAX = 5e6
COST_US_MAX = 1e6
TABLE_MAX = 256
TOKENS_MAX = 1 << 20
_BYTES_MAX = 1 << 20
BASES_MAX = 4  # profiles that are based on each other
KERNELS_MAX = 256
_WORK_MAX = 1e15  # FLOPs or bytes of a launch
_PEAK_MAX = 1e6
_OWN = ("name", "status", "source", "base")  # what a profile does not take over from its base


def load_profile(named: str) -> Profile:
    """``named``: a shipped profile (``h200-minilm-l6``), or a path. ``DeviceError``: there is none of that name."""
    document, path = _document(named, Path(), BASES_MAX)
    return _Reader(str(path), document).profile()


def shipped() -> list[str]:
    """The names of the profiles that come with the package."""
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def _document(named: str, folder: Path, bases: int) -> tuple[dict[str, Any], Path]:
    """The keys of a profile and of its base. A path is relative to ``folder``."""
    path = folder / named
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
        document = parse_toml(read_regular(path, _BYTES_MAX))
    except OSError as error:
        raise DeviceError(f"device sim:{named}: cannot read the profile {path}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    if "base" not in document:
        return document, path
    if not isinstance(document["base"], str) or not bases:
        raise ConfigError(f"{path}: base: must name a profile, and at most {BASES_MAX} may be based on each other")
    base, _ = _document(document["base"], path.parent, bases - 1)
    return _merged({key: value for key, value in base.items() if key not in _OWN}, document), path


def _merged(base: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """``document``, and below it what only ``base`` says, table by table."""
    merged = {**base, **document}
    for key in base.keys() & document.keys():
        if isinstance(base[key], dict) and isinstance(document[key], dict):
            merged[key] = _merged(base[key], document[key])
    return merged


class _Reader:
    """Takes known keys out of a document. Other keys are an error."""

    def __init__(self, file: str, document: dict[str, Any]) -> None:
        self._file = file
        self._left = {key: value for key, value in document.items() if key != "base"}
        self._known: list[str] = ["base"]
        for section in ("step", "host", "peaks"):
            self._open(section, self._left.pop(section, {}))
        kernels = self._section("kernels", self._left.pop("kernels", {}))
        self._kernels = list(kernels)
        if len(self._kernels) > KERNELS_MAX:
            raise self._error("kernels", f"has {len(self._kernels)} kernels; at most {KERNELS_MAX}")
        for name, table in kernels.items():
            self._open(f"kernels.{name}", table)

    def profile(self) -> Profile:
        tabled = "step.table" in self._left
        costs_needed = None if not self._kernels else 0.0
        profile = Profile(
            name=self._name(),
            status=self._choice("status", STATUSES),
            source=self._text("source"),
            gpu=self._text("gpu", ""),
            model=self._text("model", ""),
            task=self._choice("task", tuple(TASKS)),
            fixed_us=self._number("step.fixed_us", FIXED_US_MAX, costs_needed),
            per_token_us=self._number("step.per_token_us", COST_US_MAX, 0.0 if tabled else costs_needed),
            per_item_us=self._number("step.per_item_us", COST_US_MAX, 0.0),
            overlap=self._number("step.overlap", 1.0, 0.0),
            table=self._table("step.table"),
            launch_us=self._number("host.launch_us", COST_US_MAX, 0.0),
            peaks=self._peaks(),
            kernels=tuple(map(self._kernel, self._kernels)),
        )
        for key in self._left:
            close = difflib.get_close_matches(key, self._known, n=1, cutoff=0.6)
            raise ConfigError(f"{self._file}: unknown key {key!r}" + (f"; did you mean {close[0]!r}?" if close else ""))
        if profile.table and profile.per_token_us:
            raise self._error("step.per_token_us", "has no effect beside step.table; leave one of them out")
        if profile.step_us(TOKENS_MAX, TOKENS_MAX) == 0:
            raise self._error("step", "all costs are 0; a device that takes no time is --device null")
        return profile

    def _section(self, key: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._error(key, "must be a table: write its keys under [" + key + "]")
        return value

    def _open(self, section: str, table: Any) -> None:
        self._left |= {f"{section}.{key}": value for key, value in self._section(section, table).items()}

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

    def _number(self, key: str, largest: float, default: float | None = None, above: float = -math.inf) -> float:
        value = self._checked(key, self._take(key, default), largest)
        if value <= above:
            raise self._error(key, f"must be more than {above:g}")
        return value

    def _checked(self, key: str, value: Any, largest: float) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise self._error(key, f"{value!r} is not a number")
        if not 0 <= value <= largest:
            raise self._error(key, f"{value:g} is not within 0 to {largest:g}")
        return float(value)

    def _peaks(self) -> Peaks:
        if not self._kernels:
            return Peaks()
        peaks = {
            field.name: self._number(f"peaks.{field.name}", _PEAK_MAX, above=0) for field in dataclasses.fields(Peaks)
        }
        return Peaks(**peaks)

    def _kernel(self, name: str) -> Kernel:
        key = f"kernels.{name}"
        launches = self._take(f"{key}.launches", None)
        if isinstance(launches, bool) or not isinstance(launches, int) or not 0 <= launches <= 1 << 16:
            raise self._error(f"{key}.launches", f"{launches!r} is not a whole number within 0 to {1 << 16}")
        work = [field.name for field in dataclasses.fields(Kernel) if "flops" in field.name or "bytes" in field.name]
        kernel = Kernel(
            name=name,
            launches=launches,
            fixed_us=self._number(f"{key}.fixed_us", COST_US_MAX, 0.0),
            tb_share=self._number(f"{key}.tb_share", 1.0, 1.0, above=0),
            **{each: self._number(f"{key}.{each}", _WORK_MAX, 0.0) for each in work},
        )
        if kernel.mixed:
            raise self._error(key, "FLOPs and bytes of one kernel must both be per token or both per item")
        return kernel

    def _table(self, key: str) -> Points:
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
