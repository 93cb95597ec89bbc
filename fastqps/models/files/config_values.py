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
    smallest: int = 1,
    largest: int = _SIZE_END - 1,
    where: str = CONFIG,
) -> int:
    """A whole number from ``smallest`` to ``largest``. Without a default the key has to be there.

    ``where``: what the key lies in.
    """
    value = config.get(key, default)
    if type(value) is not int or not smallest <= value <= largest:
        raise ModelError(f"{where} says {key} {_shown(value)}, which is no possible size: {smallest} to {largest} is")
    return value


def count(
    config: Mapping[str, Any], key: str, default: int | None = None, *, smallest: int = 1, where: str = CONFIG
) -> int:
    """A ``size`` of which something is made for each: a layer, a head, a name. No checkpoint has ``COUNT_MAX``."""
    return size(config, key, default, smallest=smallest, largest=COUNT_MAX, where=where)


def flag(config: Mapping[str, Any], key: str, default: bool = False) -> bool:
    """true or false."""
    value = config.get(key, default)
    if type(value) is not bool:
        raise ModelError(f"{CONFIG} says {key} {_shown(value)}, which is neither true nor false")
    return value


def positive(config: Mapping[str, Any], key: str, default: float | None = None, *, where: str = CONFIG) -> float:
    """A number above zero."""
    value = config.get(key, default)
    if type(value) not in (int, float) or not 0 < value < math.inf:
        raise ModelError(f"{where} says {key} {_shown(value)}, which is no positive number")
    return float(value)


def choice(config: Mapping[str, Any], key: str, default: str, known: tuple[str, ...]) -> str:
    """One of ``known``."""
    value = config.get(key, default)
    if value not in known:
        raise ModelError(f"{CONFIG}: {key} {_shown(value)} is not supported; supported: {', '.join(known)}")
    return str(value)


def architectures(config: Mapping[str, Any]) -> list[str]:
    """The names of transformers' classes, of which the first one decides; at least one, "" where the file has none."""
    names = config.get("architectures") or [""]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ModelError(f"{CONFIG} says architectures {_shown(names)}, which is no list of names")
    return names


def rotary_theta(config: Mapping[str, Any], default: float) -> float:
    """The base of an encoder's rotary positions, which may not be scaled."""
    parameters = config.get("rope_parameters") or {}
    if not isinstance(parameters, dict) or parameters.get("rope_type", parameters.get("type", "default")) != "default":
        raise ModelError(f"{CONFIG}: rope_parameters {_shown(parameters)} is not supported; rope_type default is")
    if parameters.get("partial_rotary_factor", 1.0) != 1.0:
        raise ModelError(
            f"{CONFIG}: rope_parameters {_shown(parameters)} is not supported: the whole of each head turns"
        )
    if "rope_theta" in parameters:
        return positive(parameters, "rope_theta", where=f"rope_parameters of {CONFIG}")
    return positive(config, "rope_theta", default)


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _VALUE_CHARS_MAX else text[:_VALUE_CHARS_MAX] + "…"
