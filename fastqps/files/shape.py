"""Checks JSON data against a type: files are edited, cut off, and mixed up, and other programs answer."""

from __future__ import annotations

import types
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

NUMBER_MAX = 1e100  # its square can still be counted with; no figure of a measurement is near it


def fits(value: Any, hint: Any) -> bool:
    """Whether JSON data is of a type: str, bool, int, float, dict, list, unions and literals of these, Any, or
    a TypedDict, which may have more keys."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(fits(value, one) for one in inner)
    if origin is Literal:
        return isinstance(value, str) and value in inner
    if origin is dict:
        return isinstance(value, dict) and all(fits(one, inner[1]) for one in value.values())
    if is_typeddict(hint):
        own = get_type_hints(hint)
        return isinstance(value, dict) and all(key in value and fits(value[key], one) for key, one in own.items())
    if origin is list:
        return isinstance(value, list) and all(fits(one, inner[0]) for one in value)
    if hint is Any:
        return _within(value)
    if hint in (int, float):
        return _is_number(value) and (hint is float or isinstance(value, int))
    return isinstance(value, hint)


def _is_number(value: Any) -> bool:
    """A finite number that can be counted with."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= NUMBER_MAX


def _within(value: Any) -> bool:
    """No number in it is beyond counting."""
    if isinstance(value, dict | list):
        return all(map(_within, value.values() if isinstance(value, dict) else value))
    return _is_number(value) if isinstance(value, int | float) and not isinstance(value, bool) else True
