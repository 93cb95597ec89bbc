"""Rotary positions, by which queries and keys are turned, as config.json states them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from fastqps.errors import ModelError
from fastqps.models.files.config_values import flag, positive, size

_Parameters = Mapping[str, Any]
_ORIGINAL, _SHARE = "original_max_position_embeddings", "partial_rotary_factor"


@dataclass(frozen=True, kw_only=True)
class Rope:
    """Positions that are not scaled. Of each head, the first ``share`` of the numbers is turned."""

    theta: float
    share: float = 1.0

    def turned(self, head_dim: int) -> int:
        """The numbers of a head that are turned."""
        return int(head_dim * self.share)


@dataclass(frozen=True, kw_only=True)
class LinearRope(Rope):
    """All waves are longer by the factor."""

    factor: float


@dataclass(frozen=True, kw_only=True)
class Llama3Rope(LinearRope):
    """Long waves are longer by the factor, short ones stay."""

    low_freq_factor: float
    high_freq_factor: float
    original_context: int


@dataclass(frozen=True, kw_only=True)
class YarnRope(LinearRope):
    """Waves are longer by the factor where they turn less often than ``beta_slow`` times in the original context."""

    attention_factor: float  # of queries and keys that are turned
    beta_fast: float
    beta_slow: float
    original_context: int
    truncate: bool


@dataclass(frozen=True, kw_only=True)
class LongRope(Rope):
    """Each wave has a factor of its own, for sequences of up to ``context`` positions: longer ones have others."""

    factors: tuple[float, ...]
    attention_factor: float
    context: int


def read_rope(config: _Parameters, context: int, theta: float, share: float | None) -> Rope:
    """``rope_parameters`` of today, or ``rope_theta`` and ``rope_scaling`` of before, which hold where both are.

    ``theta``: where the file does not say it. ``share``: as well; None: the family turns the whole of each head.
    """
    key = "rope_scaling" if config.get("rope_scaling") else "rope_parameters"
    parameters, where = rope_object(config, key), f"{key} of config.json"
    if any(isinstance(value, dict) for value in parameters.values()):
        raise ModelError(f"{where}: rotary positions by kind of layer ({', '.join(parameters)}) are not supported")
    if "rope_theta" not in parameters:
        parameters = parameters | {"rope_theta": positive(config, "rope_theta", theta)}
    if share is not None and parameters.get(_SHARE) is None:
        parameters = parameters | {_SHARE: positive(config, _SHARE, share)}
    # The file's top level decides, even over that of its parameters.
    original = {_ORIGINAL: config[_ORIGINAL]} if _ORIGINAL in config else {}
    return rope_of(parameters | original, where, context, partial=share is not None)


def rope_object(config: _Parameters, key: str) -> dict[str, Any]:
    """The object under ``key``, empty where there is none."""
    parameters = config.get(key) or {}
    if not isinstance(parameters, dict):
        raise ModelError(f"config.json says {key} {json.dumps(parameters)}, which is no object")
    return parameters


def check_turned(rope: Rope, head_dim: int) -> None:
    """``ModelError`` where heads of that size cannot be turned so."""
    turned = rope.turned(head_dim)
    if turned < 2 or turned % 2:
        raise ModelError(f"config.json: {_SHARE} {rope.share} is not supported: it turns {turned} of a head's numbers")
    if isinstance(rope, LongRope) and len(rope.factors) != turned // 2:
        raise ModelError(f"config.json: short_factor has {len(rope.factors)} numbers; {turned // 2}, by the heads, are")


def ropes_by_kind(config: _Parameters, kinds: Collection[str]) -> dict[str, dict[str, Any]]:
    """``rope_parameters`` of a model whose kinds of layers have one each: an object for each, perhaps an empty one."""
    parameters = config.get("rope_parameters")
    parameters = {} if parameters is None else parameters
    if not isinstance(parameters, dict) or any(not isinstance(parameters.get(kind), dict | None) for kind in kinds):
        raise ModelError(
            f"config.json: rope_parameters is not supported: an object with one for {' and '.join(kinds)} is"
        )
    if unknown := parameters.keys() - set(kinds):
        raise ModelError(f"config.json: rope_parameters.{min(unknown)} is not supported; supported: {', '.join(kinds)}")
    return {kind: dict(parameters.get(kind) or {}) for kind in kinds}


def rope_of(parameters: _Parameters, where: str, context: int, *, partial: bool = False) -> Rope:
    """The rotation that one object of rotary parameters states, ``rope_theta`` included; ``where`` names it.

    ``partial``: it may turn a share of each head.
    """
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    if not isinstance(kind, str) or kind not in _TYPES:
        raise ModelError(f"{where}: rope_type {kind!r} is not supported; supported: {', '.join(_TYPES)}")
    share = parameters.get(_SHARE)
    share = 1.0 if share is None else positive(parameters, _SHARE, where=where)
    if share > 1 or (share < 1 and not partial):
        whole = "at most the whole of a head turns" if partial else "rotary positions turn the whole of a head"
        raise ModelError(f"{where}: {_SHARE} {share} is not supported: {whole}")
    needed, read = _TYPES[kind]
    if lacking := [key for key in needed if parameters.get(key) is None]:
        raise ModelError(f"{where} lacks {' and '.join(lacking)}, which its type {kind!r} needs")
    theta = positive(parameters, "rope_theta", where=where)
    return read(_Stated(parameters, where, context), {"theta": theta, "share": share})


@dataclass(frozen=True)
class _Stated:
    parameters: _Parameters
    where: str
    context: int

    def positive(self, key: str, default: float | None = None) -> float:
        return positive(self.parameters, key, default, where=self.where)

    def optional(self, key: str) -> float | None:
        return None if self.parameters.get(key) is None else self.positive(key)

    @property
    def original(self) -> int:
        return size(self.parameters, _ORIGINAL, self.context, where=self.where)


def _default(stated: _Stated, common: dict[str, float]) -> Rope:
    """Also NTK scaling that is dynamic: it changes nothing up to ``max_position_embeddings``, where sequences end."""
    del stated
    return Rope(**common)


def _linear(stated: _Stated, common: dict[str, float]) -> Rope:
    return LinearRope(factor=stated.positive("factor"), **common)


def _llama3(stated: _Stated, common: dict[str, float]) -> Rope:
    low, high = stated.positive("low_freq_factor"), stated.positive("high_freq_factor")
    if low >= high:
        raise ModelError(f"{stated.where} has a low_freq_factor that is not below its high_freq_factor")
    return Llama3Rope(
        factor=stated.positive("factor"),
        low_freq_factor=low,
        high_freq_factor=high,
        original_context=stated.original,
        **common,
    )


def _yarn(stated: _Stated, common: dict[str, float]) -> Rope:
    factor = stated.positive("factor")

    def scale(by: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * by * math.log(factor) + 1.0

    attention, above, below = (stated.optional(key) for key in ("attention_factor", "mscale", "mscale_all_dim"))
    if attention is None:
        attention = scale(above) / scale(below) if above and below else scale(1)
    fast, slow = (stated.optional(key) for key in ("beta_fast", "beta_slow"))
    return YarnRope(
        factor=factor,
        attention_factor=attention,
        beta_fast=fast or 32.0,
        beta_slow=slow or 1.0,
        original_context=stated.original,
        truncate=flag(stated.parameters, "truncate", True),
        **common,
    )


def _long(stated: _Stated, common: dict[str, float]) -> Rope:
    """The factors of sequences up to the original context, and so its ``context``: beyond it, all keys change."""
    original, attention = stated.original, stated.optional("attention_factor")
    factor = stated.optional("factor") or stated.context / original
    if attention is None:
        attention = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
    factors = stated.parameters["short_factor"]
    if not isinstance(factors, list) or any(type(x) not in (int, float) or not 0 < x < math.inf for x in factors):
        raise ModelError(f"{stated.where}: short_factor is not supported: a list of positive numbers is")
    return LongRope(
        factors=tuple(map(float, factors)), attention_factor=attention, context=min(original, stated.context), **common
    )


# By rope_type: the keys that it needs, and what reads it.
_TYPES: Mapping[str, tuple[tuple[str, ...], Callable[[_Stated, dict[str, float]], Rope]]] = {
    "default": ((), _default),
    "linear": (("factor",), _linear),
    "dynamic": (("factor",), _default),
    "llama3": (("factor", "low_freq_factor", "high_freq_factor"), _llama3),
    "yarn": (("factor",), _yarn),
    "longrope": (("short_factor", "long_factor"), _long),
}
