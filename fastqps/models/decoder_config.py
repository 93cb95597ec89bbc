"""What config.json says of a Llama-like decoder, in today's names and in older ones; the rest is refused by name."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from fastqps.models.card import ModelError

# model_type -> family. SmolLM2 is a llama with a tied head.
GENERATORS = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}
ROPE_TYPES = ("default", "linear", "llama3")
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
_SIZE_END = 1 << 31


@dataclass(frozen=True)
class Rope:
    """How positions turn queries and keys. ``factor`` and what follows it belong to scaled types only."""

    kind: str  # one of ROPE_TYPES
    theta: float
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 1.0
    original_context: int = 0


@dataclass(frozen=True)
class DecoderConfig:
    """Sizes and options of one decoder."""

    hidden: int
    inner: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    context: int
    window: int  # 0: every token sees all before it
    eps: float
    rope: Rope
    qkv_bias: bool
    out_bias: bool
    mlp_bias: bool
    qk_norm: bool
    tied: bool


def read_decoder_config(config: dict[str, Any]) -> DecoderConfig:
    """The decoder that ``config`` describes; ``ModelError`` with the reason if it is none that can be computed."""
    family = GENERATORS[config["model_type"]]
    _check_options(config)
    sizes = {key: _size(config, key) for key in ("hidden_size", "intermediate_size", "num_hidden_layers", "vocab_size")}
    heads = _size(config, "num_attention_heads")
    kv_heads = _size(config, "num_key_value_heads") if config.get("num_key_value_heads") is not None else heads
    if heads % kv_heads:
        raise ModelError(f"{heads} attention heads cannot share {kv_heads} key and value heads")
    context = _size(config, "max_position_embeddings")
    attention_bias = bool(config.get("attention_bias", False)) and family != "qwen2"
    return DecoderConfig(
        hidden=sizes["hidden_size"],
        inner=sizes["intermediate_size"],
        layers=sizes["num_hidden_layers"],
        heads=heads,
        kv_heads=kv_heads,
        head_dim=_head_dim(config, family),
        vocab=sizes["vocab_size"],
        context=context,
        window=_window(config) if family != "llama" else 0,
        eps=_positive(config.get("rms_norm_eps", 1e-6), "rms_norm_eps", "config.json"),
        rope=_rope(config, context),
        qkv_bias=attention_bias or family == "qwen2",
        out_bias=attention_bias,
        mlp_bias=bool(config.get("mlp_bias", False)) and family == "llama",
        qk_norm=family == "qwen3",
        tied=bool(config.get("tie_word_embeddings", False)),
    )


def _size(config: dict[str, Any], key: str) -> int:
    found = config.get(key)
    if type(found) is not int or not 0 < found < _SIZE_END:
        raise ModelError(f"config.json says {key} {found!r}, which is no possible size")
    return found


def _head_dim(config: dict[str, Any], family: str) -> int:
    """Its own number where config.json has one, else the width's share."""
    width, heads = _size(config, "hidden_size"), _size(config, "num_attention_heads")
    if config.get("head_dim") is not None:
        found = _size(config, "head_dim")
    elif family == "qwen3":
        found = 128  # what transformers takes, whatever the width
    elif width % heads:
        raise ModelError(f"config.json says {heads} attention heads, which do not divide its width {width}")
    else:
        found = width // heads
    if found % 2:
        raise ModelError(f"heads of size {found} are not supported: rotary positions turn pairs, so it must be even")
    return found


def _check_options(config: dict[str, Any]) -> None:
    """Refuses what would change the numbers and is not computed."""
    experts = next((key for key in _EXPERTS if config.get(key)), "")
    if experts:
        raise ModelError(f"mixtures of experts ({experts} {config[experts]}) are not supported; dense decoders are")
    activation = config.get("hidden_act", "silu")
    if activation not in ("silu", "swish"):
        raise ModelError(f"activation {activation!r} is not supported in a decoder; supported: silu")
    unknown = set(config.get("layer_types") or ()) - {"full_attention", "sliding_attention"}
    if unknown:
        raise ModelError(f"layers of type {', '.join(sorted(unknown))} are not supported; supported: full_attention")


def _window(config: dict[str, Any]) -> int:
    """The positions that a layer of the model sees, if not all."""
    if not config.get("use_sliding_window") or config.get("sliding_window") is None:
        return 0
    layers = config["num_hidden_layers"]
    kinds = config.get("layer_types") or []
    some = "sliding_attention" in kinds if kinds else int(config.get("max_window_layers", 28)) < layers
    return _size(config, "sliding_window") if some else 0


def _rope(config: dict[str, Any], context: int) -> Rope:
    """``rope_parameters`` of today, or ``rope_theta`` and ``rope_scaling`` of before, which hold where both are."""
    where = "rope_scaling" if config.get("rope_scaling") else "rope_parameters"
    said = config.get(where) or {}
    if not isinstance(said, dict):
        raise ModelError(f"config.json says {where} {json.dumps(said)}, which is no object")
    if any(isinstance(value, dict) for value in said.values()):
        raise ModelError(f"rotary positions by kind of layer ({', '.join(said)}) are not supported; one for all is")
    kind = said.get("rope_type", said.get("type", "default"))
    if kind not in ROPE_TYPES:
        raise ModelError(f"rotary positions of type {kind!r} are not supported; supported: {', '.join(ROPE_TYPES)}")
    if said.get("partial_rotary_factor", config.get("partial_rotary_factor", 1.0)) != 1.0:
        raise ModelError("rotary positions on a part of each head (partial_rotary_factor) are not supported")
    thetas = (said.get("rope_theta"), config.get("rope_theta"))
    theta = next((value for value in thetas if value is not None), 10_000.0)
    theta = _positive(theta, "rope_theta", "config.json")
    if kind == "default":
        return Rope(kind, theta)
    keys = ("factor", "low_freq_factor", "high_freq_factor") if kind == "llama3" else ("factor",)
    if lacking := [key for key in keys if said.get(key) is None]:
        raise ModelError(f"{where} of config.json lacks {' and '.join(lacking)}, which its type {kind!r} needs")
    factor, *wavelengths = (_positive(said[key], key, f"{where} of config.json") for key in keys)
    if kind == "linear":
        return Rope(kind, theta, factor)
    low, high = wavelengths
    if low >= high:
        raise ModelError(f"{where} of config.json has a low_freq_factor that is not below its high_freq_factor")
    original = "original_max_position_embeddings"
    return Rope(kind, theta, factor, low, high, _size(said, original) if said.get(original) is not None else context)


def _positive(value: Any, key: str, where: str) -> float:
    if type(value) not in (int, float) or not 0 < value < math.inf:
        raise ModelError(f"{where} says {key} {json.dumps(value)}, which is no positive number")
    return float(value)
