"""ModernBERT."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastqps.errors import ModelError
from fastqps.models.families.decoder import KINDS, layer_kinds
from fastqps.models.families.encoder import (
    ACTIVATIONS,
    GATES,
    HeadConfig,
    ModernBertConfig,
    VocabularyHead,
    attention_heads,
)
from fastqps.models.families.family import EncoderFamily
from fastqps.models.families.rope import ropes_by_kind
from fastqps.models.files.config_keys import ENCODER_KEYS, VOCABULARY_KEYS
from fastqps.models.files.config_values import choice, count, flag, positive, size
from fastqps.models.files.keys import Refused, rules

_KEYS = (
    ENCODER_KEYS
    | VOCABULARY_KEYS
    | rules(
        honoured=(
            *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
            *("hidden_activation", "norm_eps", "norm_bias", "attention_bias", "mlp_bias"),
            *("layer_types", "global_attn_every_n_layers", "local_attention"),
            *("rope_parameters", "global_rope_theta", "local_rope_theta"),
            *("classifier_pooling", "classifier_bias", "classifier_activation", "decoder_bias"),
        ),
        irrelevant=(
            *("attention_dropout", "embedding_dropout", "mlp_dropout", "initializer_cutoff_factor"),
            *("deterministic_flash_attn", "reference_compile", "repad_logits_with_grad"),
            *("sparse_prediction", "sparse_pred_ignore_index", "layer_norm_eps", "hidden_act", "rope_theta"),
        ),
        refused={
            "sliding_window": Refused((), "write local_attention, which is twice as large"),
            "rope_scaling": Refused(({},), "an encoder's rotary positions cannot be scaled"),
        },
    )
)
_HEAD_ACTIVATIONS = ("gelu", "relu", "sigmoid", "silu", "tanh")
_WINDOW_MIN = 2  # half of a smaller window is 0: a token would see itself alone
_THETA = {"full_attention": 160_000.0, "sliding_attention": 10_000.0}
_OLD_THETA = {"full_attention": "global_rope_theta", "sliding_attention": "local_rope_theta"}


def read(config: Mapping[str, Any]) -> ModernBertConfig:
    """The encoder that ``config`` describes."""
    return ModernBertConfig(
        prefixes=("model.",),
        hidden=size(config, "hidden_size"),
        inner=size(config, "intermediate_size"),
        layers=count(config, "num_hidden_layers"),
        heads=attention_heads(config, "num_attention_heads", "hidden_size", even=True),
        vocab=size(config, "vocab_size"),
        positions=size(config, "max_position_embeddings"),
        eps=positive(config, "norm_eps", 1e-5),
        activation=choice(config, "hidden_activation", "gelu", GATES),
        kinds=_layer_kinds(config),
        half_window=size(config, "local_attention", 128, smallest=_WINDOW_MIN) // 2,
        thetas={kind: _theta(config, rope, kind) for kind, rope in ropes_by_kind(config, KINDS).items()},
        attention_bias=flag(config, "attention_bias"),
        mlp_bias=flag(config, "mlp_bias"),
        norm_bias=flag(config, "norm_bias"),
    )


def read_head(config: Mapping[str, Any]) -> HeadConfig:
    """The head of a classifier. Its norm is like those of the encoder."""
    return HeadConfig(
        pooling=choice(config, "classifier_pooling", "cls", ("cls", "mean")),
        dense="head.dense",
        activation=choice(config, "classifier_activation", "gelu", _HEAD_ACTIVATIONS),
        bias=flag(config, "classifier_bias"),
        norm="head.norm",
        norm_bias=flag(config, "norm_bias"),
    )


def _read_vocabulary_head(config: Mapping[str, Any]) -> VocabularyHead:
    return VocabularyHead(
        dense="head.dense",
        activation=choice(config, "classifier_activation", "gelu", ACTIVATIONS),
        norm="head.norm",
        decoder="decoder",
        words="embeddings.tok_embeddings",
        width=size(config, "hidden_size"),
        eps=positive(config, "norm_eps", 1e-5),
        tied=flag(config, "tie_word_embeddings", True),
        dense_bias=flag(config, "classifier_bias"),
        norm_bias=flag(config, "norm_bias"),
        decoder_bias=flag(config, "decoder_bias", True),
    )


def _layer_kinds(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Older files say every n-th layer is full."""
    if (kinds := layer_kinds(config, KINDS)) is not None:
        return kinds
    every = size(config, "global_attn_every_n_layers", 3)
    return tuple(KINDS[i % every > 0] for i in range(count(config, "num_hidden_layers")))


def _theta(config: Mapping[str, Any], rope: dict[str, Any], kind: str) -> float:
    where = f"rope_parameters.{kind} of config.json"
    rope_type = rope.get("rope_type", rope.get("type", "default"))
    if rope_type != "default" or rope.get("partial_rotary_factor", 1.0) != 1.0:
        raise ModelError(f"{where}: scaled or partial rotary positions are not supported; only rope_type default is")
    if "rope_theta" in rope:
        return positive(rope, "rope_theta", where=where)
    return positive(config, _OLD_THETA[kind], _THETA[kind])


FAMILY = EncoderFamily(
    name="modernbert",
    keys=_KEYS,
    tokenizer_decides=True,
    read=read,
    read_head=read_head,
    read_token_head=read_head,
    read_vocabulary_head=_read_vocabulary_head,
)
