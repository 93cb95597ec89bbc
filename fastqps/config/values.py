"""From what a source says about one setting to its checked value."""

from __future__ import annotations

import os
import re
from typing import Any

from fastqps.config.settings import OFF, UNIX, Meaning, Setting
from fastqps.config.units import parse_bytes, parse_duration

UNIX_BYTES_MAX = 107  # of a path, with its NUL what Linux has room for
_ROUTE = r"(/[^\x00-\x20\x7f-\U0010ffff?#{}]{0,1023})?"
_SWITCH = {"on": True, "off": False}  # in a file also true and false


def parse_value(setting: Setting, raw: Any) -> Any:
    """The value that ``raw`` (text from the command line or environment, or a TOML value) means.

    ``ValueError`` says what is wrong with it, without naming the setting.
    """
    meaning = setting.meaning
    if meaning.auto and raw == "auto":
        return setting.default
    if meaning.has_off and raw == "off":
        return OFF
    match meaning.kind:
        case "text":
            value: Any = _text(raw)
        case "texts":
            value = _texts(raw)
            if meaning.has_names and isinstance(raw, str):
                value = _with_names(value)
        case "switch":
            value = _switch(raw)
        case "count":
            value = _within(meaning, _count(raw), setting)
        case "port":
            value = _socket(raw) if str(raw).startswith(UNIX) else _within(meaning, _count(raw), setting)
        case "route":
            value = _route(_text(raw))
        case "ratio":
            value = _ratio(raw, meaning.floor)
        case "weights":
            value = _weights(raw, meaning, setting)
        case "bytes":
            value = _within(meaning, parse_bytes(_quantity(raw)), setting)
        case "duration":
            value = _within(meaning, parse_duration(_quantity(raw)), setting)
    if meaning.choices and value not in meaning.choices:
        raise ValueError(f"{value!r} is not one of {', '.join(meaning.choices)}")
    return value


def _text(raw: Any) -> str:
    if not isinstance(raw, str):
        raise ValueError(f"{raw!r} is not text")
    return raw


def _texts(raw: Any) -> tuple[str, ...]:
    parts = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(parts, list) or not all(isinstance(part, str) and part.strip() for part in parts):
        raise ValueError(f"{raw!r} is not a list of names")
    return tuple(part.strip() for part in parts)


def _with_names(parts: tuple[str, ...]) -> tuple[str, ...]:
    """Puts names back in front of the NAME=DIR that follows them, where commas separated them from it as they separate
    models. A name is a part that is neither a path, nor of the hub, nor packaged."""
    if not any("=" in part for part in parts):
        return parts
    from fastqps.models.names import PACKAGED  # it reads checkpoints, which few commands do

    found: list[str] = []
    names: list[str] = []
    for part in parts:
        if "=" in part:
            found.append(",".join((*names, part)))
        elif part not in PACKAGED and not any(mark in part for mark in "/:@"):
            names.append(part)
            continue
        else:
            found += [*names, part]
        names = []
    return (*found, *names)


def _switch(raw: Any) -> bool:
    found = raw if isinstance(raw, bool) else _SWITCH.get(str(raw))
    if found is None:
        raise ValueError(f"{raw!r} is neither on nor off")
    return bool(found)


def _count(raw: Any) -> int:
    if isinstance(raw, bool) or not isinstance(raw, (int, str)):
        raise ValueError(f"{raw!r} is not a whole number")
    try:
        return int(raw)
    except ValueError:
        raise ValueError(f"{raw!r} is not a whole number") from None


def _socket(raw: str) -> str:
    if not raw.startswith(UNIX + "/") or len(os.fsencode(raw.removeprefix(UNIX))) > UNIX_BYTES_MAX:
        raise ValueError(f"{raw!r} is not unix: and an absolute path of at most {UNIX_BYTES_MAX} bytes")
    return raw


def _route(raw: str) -> str:
    if not re.fullmatch(_ROUTE, raw):
        raise ValueError(f"{raw!r} is not the path of a URL, such as /predict")
    return raw


def _ratio(raw: Any, floor: float) -> float:
    try:
        value = float("nan") if isinstance(raw, bool) else float(raw)
    except (TypeError, ValueError):
        raise ValueError(f"{raw!r} is not a number") from None
    if not floor <= value <= 1:
        raise ValueError(f"{raw} is not within {floor:g} to 1")
    return value


def _weights(raw: Any, meaning: Meaning, setting: Setting) -> tuple[int, ...]:
    parts = str(raw).split(":")
    if len(parts) != len(setting.default) or not all(part.strip().isdecimal() for part in parts):
        example = setting.format(setting.default)
        raise ValueError(f"{raw!r} is not {meaning.metavar}; write for example {example}")
    weights = tuple(map(int, parts))
    for weight in weights:
        if not meaning.least <= weight <= meaning.most:
            raise ValueError(f"{raw}: the weight {weight} is not within {meaning.least} to {meaning.most}")
    return weights


def _quantity(raw: Any) -> str:
    if isinstance(raw, bool) or not isinstance(raw, (int, str)):
        raise ValueError(f"{raw!r} is not a quantity")
    return str(raw)


def _within(meaning: Meaning, value: int, setting: Setting) -> int:
    if not meaning.least <= value <= meaning.most:
        least, most = setting.format(meaning.least), setting.format(meaning.most)
        raise ValueError(f"{setting.format(value)} is not within {least} to {most}")
    return value
