"""Reads JSON and TOML. Their numbers fit in a float: no reader meets an infinity or an overflow."""

from __future__ import annotations

import json
import math
import sys
import tomllib
from typing import Any

_MOST = sys.float_info.max
_PLACE_CHARS_MAX = 200
_DIGITS_SAFE = 308  # a whole number of so many digits is below ``_MOST``


def parse_json(text: bytes) -> Any:
    """The value. ``ValueError`` where it is not JSON in UTF-8, is nested too deeply, or has a number that no float
    holds: NaN, Infinity, 1e400. It names the number's key."""
    try:
        return json.loads(text.decode(), parse_int=_whole, parse_float=_real, parse_constant=_real)
    except OverflowError:
        value = json.loads(text.decode(), parse_int=lambda digits: int(digits[: _DIGITS_SAFE + 10]))
        raise ValueError(_beyond(value)) from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except MemoryError:
        raise ValueError("it takes too much memory") from None


def parse_toml(text: bytes) -> dict[str, Any]:
    """The table. Raises ``ValueError`` like ``parse_json``."""
    try:
        table = tomllib.loads(text.decode())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if beyond := _beyond(table):
        raise ValueError(beyond)
    return table


def _whole(digits: str) -> int:
    if len(digits) > _DIGITS_SAFE:
        _real(digits)
    return int(digits)


def _real(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise OverflowError
    return value


def _beyond(document: Any) -> str:
    """Says where a number stands that no float holds; "": there is none."""
    places = [("the value", document)]
    while places:
        place, value = places.pop()
        if isinstance(value, int | float) and not -_MOST <= value <= _MOST:
            where = place[:_PLACE_CHARS_MAX]
            return f"{where} is no number that a float holds: at most {_MOST:.3g}, and neither Infinity nor NaN"
        inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        places += [(f"{place}[{key!r}]", each) for key, each in inside]
    return ""
