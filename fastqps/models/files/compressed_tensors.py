"""Checks config.json of weights that are quantised already: FP8 of compressed-tensors is supported, others are not.

Which tensors are quantised, the files say themselves: such a weight is float8_e4m3fn and has a ``weight_scale`` beside
it. Here it is only made sure that scales mean what ``Weights`` takes them for, and activations what ``fp8`` does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fastqps.errors import ModelError

QUANTIZATION_KEYS = ("quantization_config", "compression_config")  # of today, and of older files
_SUPPORTED = "supported: compressed-tensors' float-quantized (FP8), with a scale for each channel or tensor of weights"
# The allowed values at each level. A key must be present unless None is among its values.
_ANYTHING: Any = ...  # changes nothing that is computed, or is looked at by itself
_EMPTY: tuple[Any, ...] = (None, {}, [])
_TOP: dict[str, Any] = {
    "quant_method": ("compressed-tensors",),
    "format": ("float-quantized",),
    "quantization_status": (None, "compressed", "frozen"),
    "config_groups": _ANYTHING,
    "ignore": _ANYTHING,
    "global_compression_ratio": _ANYTHING,
    "version": _ANYTHING,
    "sparsity_config": (*_EMPTY, {"format": "dense"}),
}
_GROUP: dict[str, Any] = {
    "format": (None, "float-quantized"),
    "targets": _ANYTHING,
    "weights": _ANYTHING,
    "input_activations": _ANYTHING,
}
_NUMBERS: dict[str, Any] = {
    "num_bits": (8,),
    "type": ("float",),
    "symmetric": (None, True),
    "observer": _ANYTHING,
    "observer_kwargs": _ANYTHING,
}
_WEIGHTS = {**_NUMBERS, "strategy": ("channel", "tensor"), "dynamic": (None, False)}
_ACTIVATIONS = {**_NUMBERS, "strategy": ("token",), "dynamic": (True,)}


def check_quantization(config: Mapping[str, Any]) -> None:
    """``ModelError`` names what a configuration says of its weights that cannot be computed as it is meant."""
    for key in QUANTIZATION_KEYS:
        if (quantization := config.get(key)) is not None:
            _check(quantization, key)


def _check(quantization: Any, at: str) -> None:
    method = quantization.get("quant_method", "unknown") if isinstance(quantization, dict) else "unknown"
    if method not in _TOP["quant_method"]:
        raise ModelError(f"quantised weights ({method}) are not supported; {_SUPPORTED}")
    _check_values(quantization, _TOP, at)
    groups = quantization.get("config_groups")
    if not isinstance(groups, dict) or not groups:
        raise ModelError(f"config.json says {at}.config_groups {json.dumps(groups)}, which is no group of weights")
    for name, group in groups.items():
        where = f"{at}.config_groups.{name}"
        _check_values(group, _GROUP, where)
        _check_values(group.get("weights"), _WEIGHTS, f"{where}.weights")
        _check_values(group.get("input_activations"), _ACTIVATIONS, f"{where}.input_activations")


def _check_values(values: Any, known: dict[str, Any], at: str) -> None:
    if not isinstance(values, dict):
        raise _refusal(at, values)
    for key, value in values.items():
        possible = known.get(key, _EMPTY)
        if possible is not _ANYTHING and value not in possible:
            raise _refusal(f"{at}.{key}", value)
    for key, possible in known.items():
        if key not in values and possible is not _ANYTHING and None not in possible:
            raise _refusal(f"{at}.{key}", None)


def _refusal(at: str, value: Any) -> ModelError:
    return ModelError(f"quantised weights with {at} {json.dumps(value)} are not supported; {_SUPPORTED}")
