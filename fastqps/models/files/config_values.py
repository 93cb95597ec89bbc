"""Typed values of config.json. ``ModelError`` names the key and the value where that is not of its kind."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Literal

from fastqps.errors import ModelError
from fastqps.models.files.config_keys import CONFIG

_SIZE_END = 1 << 31
COUNT_MAX = 4096
CARD_BYTES_MAX = 256 << 10  # csrc/core/layout/limits.h: kCardBytes
LABELS_MAX = CARD_BYTES_MAX // 4  # a name takes as many bytes of it, with its quotes and comma
_VALUE_CHARS_MAX = 100

Activation = Literal["identity", "softmax", "sigmoid"]


def size(
    config: Mapping[str, Any],
    key: str,
    default: int | None = None,
    *,
    least: int = 1,
    most: int = _SIZE_END - 1,
    where: str = CONFIG,
) -> int:
    """A whole number from ``least`` to ``most``. Without a default the key has to be there.

    ``where``: what the key lies in.
    """
    found = config.get(key, default)
    if type(found) is not int or not least <= found <= most:
        raise ModelError(f"{where} says {key} {_shown(found)}, which is no possible size: {least} to {most} is")
    return found


def count(
    config: Mapping[str, Any], key: str, default: int | None = None, *, least: int = 1, where: str = CONFIG
) -> int:
    """A ``size`` of which something is made for each: a layer, a head, a name. No checkpoint has ``COUNT_MAX``."""
    return size(config, key, default, least=least, most=COUNT_MAX, where=where)


def flag(config: Mapping[str, Any], key: str, default: bool = False) -> bool:
    """true or false."""
    found = config.get(key, default)
    if type(found) is not bool:
        raise ModelError(f"{CONFIG} says {key} {_shown(found)}, which is neither true nor false")
    return found


def positive(config: Mapping[str, Any], key: str, default: float | None = None, *, where: str = CONFIG) -> float:
    """A number above zero."""
    found = config.get(key, default)
    if type(found) not in (int, float) or not 0 < found < math.inf:
        raise ModelError(f"{where} says {key} {_shown(found)}, which is no positive number")
    return float(found)


def choice(config: Mapping[str, Any], key: str, default: str, known: tuple[str, ...]) -> str:
    """One of ``known``."""
    found = config.get(key, default)
    if found not in known:
        raise ModelError(f"{CONFIG}: {key} {_shown(found)} is not supported; supported: {', '.join(known)}")
    return str(found)


def rotary_theta(config: Mapping[str, Any], default: float) -> float:
    """The base of an encoder's rotary positions, which may not be scaled."""
    said = config.get("rope_parameters") or {}
    if not isinstance(said, dict) or said.get("rope_type", said.get("type", "default")) != "default":
        raise ModelError(f"{CONFIG}: rope_parameters {_shown(said)} is not supported; rope_type default is")
    if said.get("partial_rotary_factor", 1.0) != 1.0:
        raise ModelError(f"{CONFIG}: rope_parameters {_shown(said)} is not supported: the whole of each head turns")
    if "rope_theta" in said:
        return positive(said, "rope_theta", where=f"rope_parameters of {CONFIG}")
    return positive(config, "rope_theta", default)


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _VALUE_CHARS_MAX else text[:_VALUE_CHARS_MAX] + "…"
