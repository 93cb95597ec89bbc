"""What config.json says of an encoder, checked: sizes, options, and where its positions begin."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastqps.models.card import ModelError
from fastqps.models.files.config_values import choice, flag, positive, size

# What may stand between two products; and between a gate and its product.
ACTIVATIONS = ("gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "relu")
GATES = (*ACTIVATIONS, "silu")
_HEAD_ACTIVATIONS = ("gelu", "relu", "sigmoid", "silu", "tanh")
_WINDOW_MIN = 2  # the half of less is 0: a token would see itself alone
_KINDS = ("full_attention", "sliding_attention")
_THETA = {"full_attention": 160_000.0, "sliding_attention": 10_000.0}
_OLD_THETA = {"full_attention": "global_rope_theta", "sliding_attention": "local_rope_theta"}


@dataclass(frozen=True)
class EncoderConfig:
    """Sizes that every encoder has."""

    hidden: int
    inner: int
    layers: int
    heads: int
    vocab: int
    positions: int  # of the table, or that the model was made for
    eps: float
    activation: str


@dataclass(frozen=True)
class BertConfig(EncoderConfig):
    """BERT, DistilBERT and RoBERTa."""

    types: int  # 0: the model has no token types
    position_offset: int  # position id of a sequence's first token


@dataclass(frozen=True)
class ModernBertConfig(EncoderConfig):
    """ModernBERT. Each layer has a kind, ``full_attention`` or ``sliding_attention``."""

    kinds: tuple[str, ...]
    half_window: int  # of a sliding layer: a token sees as many before it, and as many behind it
    thetas: Mapping[str, float]  # by kind
    attention_bias: bool
    mlp_bias: bool
    norm_bias: bool


@dataclass(frozen=True)
class ModernBertHead:
    """What lies between a ModernBERT and its labels."""

    pooling: str
    activation: str
    bias: bool


def read_encoder_config(config: Mapping[str, Any], family: str) -> BertConfig | ModernBertConfig:
    """The encoder that ``config`` describes; ``ModelError`` with the reason if it is none that can be computed."""
    if family == "modernbert":
        return _modernbert(config)
    return _distilbert(config) if family == "distilbert" else _bert(config, family)


def _bert(config: Mapping[str, Any], family: str) -> BertConfig:
    return BertConfig(
        hidden=size(config, "hidden_size"),
        inner=size(config, "intermediate_size"),
        layers=size(config, "num_hidden_layers"),
        heads=_heads(config, "num_attention_heads", "hidden_size"),
        vocab=size(config, "vocab_size"),
        positions=size(config, "max_position_embeddings"),
        eps=positive(config, "layer_norm_eps", 1e-12),
        activation=choice(config, "hidden_act", "gelu", ACTIVATIONS),
        types=size(config, "type_vocab_size", 2),
        position_offset=size(config, "pad_token_id", 1, least=0) + 1 if family == "roberta" else 0,
    )


def _distilbert(config: Mapping[str, Any]) -> BertConfig:
    return BertConfig(
        hidden=size(config, "dim"),
        inner=size(config, "hidden_dim"),
        layers=size(config, "n_layers"),
        heads=_heads(config, "n_heads", "dim"),
        vocab=size(config, "vocab_size"),
        positions=size(config, "max_position_embeddings"),
        eps=1e-12,  # whatever layer_norm_eps says
        activation=choice(config, "activation", "gelu", ACTIVATIONS),
        types=0,
        position_offset=0,
    )


def _modernbert(config: Mapping[str, Any]) -> ModernBertConfig:
    return ModernBertConfig(
        hidden=size(config, "hidden_size"),
        inner=size(config, "intermediate_size"),
        layers=size(config, "num_hidden_layers"),
        heads=_heads(config, "num_attention_heads", "hidden_size", even=True),
        vocab=size(config, "vocab_size"),
        positions=size(config, "max_position_embeddings"),
        eps=positive(config, "norm_eps", 1e-5),
        activation=choice(config, "hidden_activation", "gelu", GATES),
        kinds=_layer_kinds(config),
        half_window=size(config, "local_attention", 128, least=_WINDOW_MIN) // 2,
        thetas=_thetas(config),
        attention_bias=flag(config, "attention_bias"),
        mlp_bias=flag(config, "mlp_bias"),
        norm_bias=flag(config, "norm_bias"),
    )


def read_modernbert_head(config: Mapping[str, Any]) -> ModernBertHead:
    """Of a classifier; the rest of its head is as its encoder's norms are."""
    return ModernBertHead(
        choice(config, "classifier_pooling", "cls", ("cls", "mean")),
        choice(config, "classifier_activation", "gelu", _HEAD_ACTIVATIONS),
        flag(config, "classifier_bias"),
    )


def _heads(config: Mapping[str, Any], key: str, width_key: str, even: bool = False) -> int:
    width, heads = size(config, width_key), size(config, key)
    if width % heads:
        raise ModelError(f"config.json says {key} {heads}, which do not divide its {width_key} {width}")
    if even and width // heads % 2:
        raise ModelError(
            f"config.json says {key} {heads} and {width_key} {width}: rotary positions turn pairs, so that the size of "
            "a head must be even"
        )
    return heads


def _layer_kinds(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Older files say every n-th layer is full."""
    layers, kinds = size(config, "num_hidden_layers"), config.get("layer_types")
    if kinds is None:
        every = size(config, "global_attn_every_n_layers", 3)
        return tuple(_KINDS[1] if i % every else _KINDS[0] for i in range(layers))
    if not isinstance(kinds, list) or len(kinds) != layers or any(kind not in _KINDS for kind in kinds):
        raise ModelError(
            f"config.json: layer_types {json.dumps(kinds)[:200]} is not supported: one of {', '.join(_KINDS)} for each "
            "layer is"
        )
    return tuple(kinds)


def _thetas(config: Mapping[str, Any]) -> dict[str, float]:
    said = config.get("rope_parameters")
    if said is None:
        said = {}
    if not isinstance(said, dict) or any(not isinstance(said.get(kind, {}), dict) for kind in _KINDS):
        raise ModelError(
            f"config.json: rope_parameters is not supported: an object with one for {' and '.join(_KINDS)} is"
        )
    if unknown := set(said) - set(_KINDS):
        raise ModelError(
            f"config.json: rope_parameters.{min(unknown)} is not supported; supported: {', '.join(_KINDS)}"
        )
    return {kind: _theta(config, said.get(kind, {}), kind) for kind in _KINDS}


def _theta(config: Mapping[str, Any], rope: dict[str, Any], kind: str) -> float:
    where = f"rope_parameters.{kind} of config.json"
    rope_type = rope.get("rope_type", rope.get("type", "default"))
    if rope_type != "default" or rope.get("partial_rotary_factor", 1.0) != 1.0:
        raise ModelError(f"{where}: scaled or partial rotary positions are not supported; only rope_type default is")
    if "rope_theta" in rope:
        return positive(rope, "rope_theta", where=where)
    return positive(config, _OLD_THETA[kind], _THETA[kind])
