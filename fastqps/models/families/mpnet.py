"""MPNet: BERT without token types, with a bias of attention by the distance between two tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastqps.models.families import roberta
from fastqps.models.families.encoder import ACTIVATIONS, BertConfig, BertTensors, HeadConfig, attention_heads
from fastqps.models.families.family import EncoderFamily
from fastqps.models.files.config_keys import ENCODER_KEYS, VOCABULARY_KEYS
from fastqps.models.files.config_values import choice, count, positive, size
from fastqps.models.files.keys import Refused, rules

_PADDING_ID = 1  # behind which positions begin, whatever pad_token_id says
_BUCKETS = 32  # of distances
_TENSORS = BertTensors(
    layer="encoder.layer.{}.",
    qkv=("attention.attn.q", "attention.attn.k", "attention.attn.v"),
    out="attention.attn.o",
    out_norm="attention.LayerNorm",
    up="intermediate.dense",
    down="output.dense",
    down_norm="output.LayerNorm",
)


def read(config: Mapping[str, Any]) -> BertConfig:
    """The encoder that ``config`` describes."""
    return BertConfig(
        prefixes=("mpnet.",),
        hidden=size(config, "hidden_size"),
        inner=size(config, "intermediate_size"),
        layers=count(config, "num_hidden_layers"),
        heads=attention_heads(config, "num_attention_heads", "hidden_size"),
        vocab=size(config, "vocab_size"),
        positions=size(config, "max_position_embeddings"),
        eps=positive(config, "layer_norm_eps", 1e-12),
        activation=choice(config, "hidden_act", "gelu", ACTIVATIONS),
        position_offset=_PADDING_ID + 1,
        tensors=_TENSORS,
        relative_buckets=_BUCKETS,
    )


FAMILY = EncoderFamily(
    name="mpnet",
    keys=ENCODER_KEYS
    | VOCABULARY_KEYS
    | rules(
        honoured=(
            *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
            *("hidden_act", "layer_norm_eps"),
        ),
        irrelevant=("hidden_dropout_prob", "attention_probs_dropout_prob", "type_vocab_size"),
        refused={"relative_attention_num_buckets": Refused((_BUCKETS,), f"{_BUCKETS} are always computed")},
    ),
    tokenizer="MPNetTokenizer",
    read=read,
    read_head=lambda _: HeadConfig(
        pooling="cls", dense="classifier.dense", activation="tanh", labels="classifier.out_proj"
    ),
    read_vocabulary_head=roberta.read_vocabulary_head,  # of the same names
)
