"""MPNet: BERT without token types, with a bias of attention by the distance between two tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fastqps.models.families import bert, roberta
from fastqps.models.families.encoder import BertConfig
from fastqps.models.families.family import EncoderFamily
from fastqps.models.files.config_keys import ENCODER_KEYS, VOCABULARY_KEYS
from fastqps.models.files.keys import Refused, rules

_PADDING_ID = 1  # behind which positions begin, whatever pad_token_id says
_BUCKETS = 32  # of distances
_TENSORS = replace(
    bert.TENSORS,
    qkv=("attention.attn.q", "attention.attn.k", "attention.attn.v"),
    out="attention.attn.o",
    out_norm="attention.LayerNorm",
)


def read(config: Mapping[str, Any]) -> BertConfig:
    """The encoder that ``config`` describes."""
    own = {"types": 0, "position_offset": _PADDING_ID + 1, "tensors": _TENSORS, "relative_buckets": _BUCKETS}
    return bert.read(config, "mpnet.", **own)


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
    read_head=roberta.FAMILY.read_head,
    read_vocabulary_head=roberta.read_vocabulary_head,  # of the same names
)
