"""BERT."""

from __future__ import annotations

from collections.abc import Mapping
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


def read(config: Mapping[str, Any], prefix: str = "bert.", position_offset: int = 0) -> BertConfig:
    """An encoder whose files have BERT's keys and layout."""
    return BertConfig(
        prefixes=(prefix,),
        hidden=size(config, "hidden_size"),
        inner=size(config, "intermediate_size"),
        layers=count(config, "num_hidden_layers"),
        heads=attention_heads(config, "num_attention_heads", "hidden_size"),
        vocab=size(config, "vocab_size"),
        positions=size(config, "max_position_embeddings"),
        eps=positive(config, "layer_norm_eps", 1e-12),
        activation=choice(config, "hidden_act", "gelu", ACTIVATIONS),
        types=size(config, "type_vocab_size", 2),
        position_offset=position_offset,
        tensors=TENSORS,
    )


def read_vocabulary_head(config: Mapping[str, Any]) -> VocabularyHead:
    """The head of ``BertForMaskedLM``."""
    return VocabularyHead(
        dense="cls.predictions.transform.dense",
        activation=choice(config, "hidden_act", "gelu", ACTIVATIONS),
        norm="cls.predictions.transform.LayerNorm",
        decoder="cls.predictions.decoder",
        bias="cls.predictions.bias",
        width=size(config, "hidden_size"),
        eps=positive(config, "layer_norm_eps", 1e-12),
        tied=flag(config, "tie_word_embeddings", True),
    )


FAMILY = EncoderFamily(
    name="bert",
    keys=KEYS,
    tokenizer="BertTokenizer",
    read=read,
    read_head=lambda _: HeadConfig(pooling="cls", dense="pooler.dense", activation="tanh"),
    read_vocabulary_head=read_vocabulary_head,
)
