"""BERT."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fastqps.models.families.encoder import (
    ACTIVATIONS,
    BertConfig,
    BertTensors,
    HeadConfig,
    VocabularyHead,
    attention_heads,
)
from fastqps.models.families.family import EncoderFamily
from fastqps.models.files.config_keys import ENCODER_KEYS, VOCABULARY_KEYS
from fastqps.models.files.config_values import choice, count, flag, positive, size
from fastqps.models.files.keys import rules

KEYS = (
    ENCODER_KEYS
    | VOCABULARY_KEYS
    | rules(
        honoured=(
            *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
            *("hidden_act", "layer_norm_eps", "type_vocab_size"),
        ),
        irrelevant=(
            *("hidden_dropout_prob", "attention_probs_dropout_prob", "directionality"),
            *("pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers"),
            *("pooler_size_per_head", "pooler_type"),
        ),
    )
)

TENSORS = BertTensors(
    layer="encoder.layer.{}.",
    qkv=("attention.self.query", "attention.self.key", "attention.self.value"),
    out="attention.output.dense",
    out_norm="attention.output.LayerNorm",
    up="intermediate.dense",
    down="output.dense",
    down_norm="output.LayerNorm",
)


# How the fields of an encoder, and of the head of a masked language model, are read where a family says nothing else.
_Fields = Mapping[str, Callable[[Mapping[str, Any]], Any]]
_ENCODER: _Fields = {
    "hidden": lambda config: size(config, "hidden_size"),
    "inner": lambda config: size(config, "intermediate_size"),
    "layers": lambda config: count(config, "num_hidden_layers"),
    "heads": lambda config: attention_heads(config, "num_attention_heads", "hidden_size"),
    "vocab": lambda config: size(config, "vocab_size"),
    "positions": lambda config: size(config, "max_position_embeddings"),
    "eps": lambda config: positive(config, "layer_norm_eps", 1e-12),
    "activation": lambda config: choice(config, "hidden_act", "gelu", ACTIVATIONS),
    "types": lambda config: size(config, "type_vocab_size", 2),
    "tensors": lambda _: TENSORS,
}
_HEAD: _Fields = {
    "width": _ENCODER["hidden"],
    "eps": _ENCODER["eps"],
    "activation": _ENCODER["activation"],
    "tied": lambda config: flag(config, "tie_word_embeddings", True),
}


def _read(fields: _Fields, config: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    return {name: read(config) for name, read in fields.items() if name not in own} | dict(own)


def read(config: Mapping[str, Any], *prefixes: str, **own: Any) -> BertConfig:
    """An encoder whose files have BERT's keys and layout. ``own``: the fields that the family reads otherwise."""
    return BertConfig(prefixes=prefixes or ("bert.",), **_read(_ENCODER, config, own))


def read_vocabulary_head(config: Mapping[str, Any], dense: str, norm: str, decoder: str, **own: Any) -> VocabularyHead:
    """The head of a masked language model, by the names of its modules. ``own``: as of ``read``."""
    return VocabularyHead(dense=dense, norm=norm, decoder=decoder, **_read(_HEAD, config, own))


FAMILY = EncoderFamily(
    name="bert",
    keys=KEYS,
    tokenizer="BertTokenizer",
    read=read,
    read_head=lambda _: HeadConfig(pooling="cls", dense="pooler.dense", activation="tanh"),
    read_vocabulary_head=lambda config: read_vocabulary_head(
        config,
        "cls.predictions.transform.dense",
        "cls.predictions.transform.LayerNorm",
        "cls.predictions.decoder",
        bias="cls.predictions.bias",
    ),
)
