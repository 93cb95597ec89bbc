"""DistilBERT: BERT without token types, with its own names of keys and tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastqps.models.families import bert
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
from fastqps.models.files.config_values import choice, count, size
from fastqps.models.files.keys import rules

_EPS = 1e-12  # whatever layer_norm_eps says
_KEYS = (
    ENCODER_KEYS
    | VOCABULARY_KEYS
    | rules(
        honoured=("dim", "hidden_dim", "n_layers", "n_heads", "activation"),
        irrelevant=(
            *("dropout", "attention_dropout", "qa_dropout", "seq_classif_dropout"),
            *(
                "sinusoidal_pos_embds",
                "layer_norm_eps",
                "hidden_act",
                "type_vocab_size",
            ),  # the first: they are in the file
        ),
    )
)
_TENSORS = BertTensors(
    layer="transformer.layer.{}.",
    qkv=("attention.q_lin", "attention.k_lin", "attention.v_lin"),
    out="attention.out_lin",
    out_norm="sa_layer_norm",
    up="ffn.lin1",
    down="ffn.lin2",
    down_norm="output_layer_norm",
)


def read(config: Mapping[str, Any]) -> BertConfig:
    """The encoder that ``config`` describes."""
    return BertConfig(
        prefixes=("distilbert.",),
        hidden=size(config, "dim"),
        inner=size(config, "hidden_dim"),
        layers=count(config, "n_layers"),
        heads=attention_heads(config, "n_heads", "dim"),
        vocab=size(config, "vocab_size"),
        positions=size(config, "max_position_embeddings"),
        eps=_EPS,
        activation=choice(config, "activation", "gelu", ACTIVATIONS),
        tensors=_TENSORS,
    )


def _read_vocabulary_head(config: Mapping[str, Any]) -> VocabularyHead:
    names = ("vocab_transform", "vocab_layer_norm", "vocab_projector")
    activation = choice(config, "activation", "gelu", ACTIVATIONS)
    return bert.read_vocabulary_head(config, *names, activation=activation, width=size(config, "dim"), eps=_EPS)


FAMILY = EncoderFamily(
    name="distilbert",
    keys=_KEYS,
    aliases={"hidden_size": "dim", "num_attention_heads": "n_heads", "num_hidden_layers": "n_layers"},
    tokenizer="BertTokenizer",
    read=read,
    read_head=lambda _: HeadConfig(pooling="cls", dense="pre_classifier", activation="relu"),
    read_vocabulary_head=_read_vocabulary_head,
)
