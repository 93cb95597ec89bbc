"""JinaBERT, of jina-embeddings-v2: BERT with gates, and scores that fall with the distance of two tokens (ALiBi)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fastqps.models.families import bert
from fastqps.models.families.encoder import BertConfig
from fastqps.models.families.family import EncoderFamily
from fastqps.models.files.config_values import choice
from fastqps.models.files.keys import Refused, rules

_GATES = {"geglu": "gelu", "reglu": "relu"}
_TENSORS = replace(
    bert.TENSORS,
    up="",
    up_gate=("mlp.gated_layers",),
    gate_first=True,
    down="mlp.wo",
    down_norm="mlp.layernorm",
    unbiased=("mlp.gated_layers",),
    positions="",
)


def read(config: Mapping[str, Any]) -> BertConfig:
    """The encoder that ``config`` describes. ``feed_forward_type`` names the activation, whatever hidden_act says."""
    gate = _GATES[choice(config, "feed_forward_type", "original", tuple(_GATES))]
    return replace(bert.read(config), tensors=_TENSORS, activation=gate, alibi=True)


FAMILY = EncoderFamily(
    name="jina_bert",
    keys=bert.KEYS
    | rules(
        honoured=("feed_forward_type",),
        irrelevant=("emb_pooler", "tie_word_embeddings"),
        refused={"position_embedding_type": Refused(("alibi",), "scores fall with the distance of two tokens")},
    ),
    code="jinaai/jina-bert-implementation",
    tokenizer="BertTokenizer",
    read=read,
    read_head=bert.FAMILY.read_head,
)
