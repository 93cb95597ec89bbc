"""GTE, the encoder of gte-multilingual: BERT with rotary positions and gates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastqps.models.families import bert
from fastqps.models.families.encoder import GATES, BertConfig, BertTensors, attention_heads
from fastqps.models.families.family import EncoderFamily
from fastqps.models.families.rope import Rope
from fastqps.models.files.config_keys import ENCODER_KEYS
from fastqps.models.files.config_values import choice, rotary_theta, size
from fastqps.models.files.keys import Refused, rules

_TENSORS = BertTensors(
    layer="encoder.layer.{}.",
    qkv=("attention.qkv_proj",),
    out="attention.o_proj",
    out_norm="attn_ln",
    up_gate=("mlp.up_gate_proj",),
    down="mlp.down_proj",
    down_norm="mlp_ln",
    unbiased=("mlp.up_gate_proj",),
    positions="",
)


def read(config: Mapping[str, Any]) -> BertConfig:
    """The encoder that ``config`` describes."""
    rotary = Rope(theta=rotary_theta(config, 160_000.0))
    return encoder(config, size(config, "max_position_embeddings", 8192), rotary)


def encoder(config: Mapping[str, Any], positions: int, rotary: Rope) -> BertConfig:
    """The encoder with these positions."""
    return bert.read(
        config,
        "gte.",
        "new.",
        heads=attention_heads(config, "num_attention_heads", "hidden_size", even=True),
        positions=positions,
        activation=choice(config, "hidden_act", "gelu", GATES),
        types=size(config, "type_vocab_size", 1, smallest=0),
        tensors=_TENSORS,
        rotary=rotary,
    )


FAMILY = EncoderFamily(
    name="gte",
    keys=ENCODER_KEYS
    | rules(
        honoured=(
            *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "type_vocab_size"),
            *("hidden_act", "layer_norm_eps", "rope_parameters", "rope_theta"),
        ),
        irrelevant=("hidden_dropout_prob", "attention_probs_dropout_prob", "default_theta"),
        refused={
            "rope_scaling": Refused(({},), "an encoder's rotary positions cannot be scaled"),
            "head_dim": Refused((), "a head has the model's width by the number of heads"),
        },
    ),
    tokenizer="XLMRobertaTokenizer",
    read=read,
    read_head=bert.FAMILY.read_head,
)
