"""ALBERT: BERT with narrow embeddings, and layers that share their tensors in groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastqps.errors import ModelError
from fastqps.models.families import bert
from fastqps.models.families.encoder import ACTIVATIONS, BertConfig, BertTensors, HeadConfig, VocabularyHead
from fastqps.models.families.family import EncoderFamily
from fastqps.models.files.config_keys import CONFIG, ENCODER_KEYS, VOCABULARY_KEYS
from fastqps.models.files.config_values import COUNT_MAX, choice, count, size
from fastqps.models.files.keys import rules

_KEYS = (
    ENCODER_KEYS
    | VOCABULARY_KEYS
    | rules(
        honoured=(
            *("embedding_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
            *("num_hidden_groups", "inner_group_num", "hidden_act", "layer_norm_eps", "type_vocab_size"),
        ),
        irrelevant=(
            *("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout_prob"),
            *("down_scale_factor", "gap_size", "net_structure_type", "num_memory_blocks", "layers_to_keep"),
        ),
    )
)
_GROUP, _INNER = "encoder.albert_layer_groups.{}.", "albert_layers.{}."
_TENSORS = BertTensors(
    layer=_GROUP,
    qkv=("attention.query", "attention.key", "attention.value"),
    out="attention.dense",
    out_norm="attention.LayerNorm",
    up="ffn",
    down="ffn_output",
    down_norm="full_layer_layer_norm",
    embedding_projection="encoder.embedding_hidden_mapping_in",
)


def read(config: Mapping[str, Any]) -> BertConfig:
    """The encoder that ``config`` describes. The projection is there at any width."""
    layers = count(config, "num_hidden_layers")
    groups, inner = count(config, "num_hidden_groups", 1), count(config, "inner_group_num", 1)
    if layers * inner > COUNT_MAX:
        raise ModelError(f"{CONFIG} says inner_group_num {inner} and {layers} layers: at most {COUNT_MAX} together")
    names = [_GROUP.format(int(i / (layers / groups))) for i in range(layers)]
    return bert.read(
        config,
        "albert.",
        layers=layers * inner,
        activation=choice(config, "hidden_act", "gelu_new", ACTIVATIONS),
        tensors=_TENSORS,
        embedding=size(config, "embedding_size", 128),
        shared_layers=tuple(name + _INNER.format(i) for name in names for i in range(inner)),
    )


def _read_vocabulary_head(config: Mapping[str, Any]) -> VocabularyHead:
    return bert.read_vocabulary_head(
        config,
        "predictions.dense",
        "predictions.LayerNorm",
        "predictions.decoder",
        bias="predictions.bias",
        activation=choice(config, "hidden_act", "gelu_new", ACTIVATIONS),
        width=size(config, "embedding_size", 128),
    )


FAMILY = EncoderFamily(
    name="albert",
    keys=_KEYS,
    tokenizer="AlbertTokenizer",
    read=read,
    read_head=lambda _: HeadConfig(pooling="cls", dense="pooler", activation="tanh"),
    read_vocabulary_head=_read_vocabulary_head,
)
