"""Gemma 1: a llama with a gate of GELU, norms around one, scaled embeddings and a tied head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastqps.models.families.decoder import DecoderConfig, overlaid, read_decoder
from fastqps.models.families.encoder import GATES
from fastqps.models.families.family import DecoderFamily
from fastqps.models.files.config_keys import DECODER_KEYS
from fastqps.models.files.config_values import choice, flag, size
from fastqps.models.files.keys import Refused, rules

_GATE = "gelu_pytorch_tanh"
_KV_HEADS, _HEAD_DIM = 16, 256  # where the file does not name them


def read(config: Mapping[str, Any]) -> DecoderConfig:
    """The decoder that ``config`` describes."""
    bias, gate = flag(config, "attention_bias"), choice(config, "hidden_act", _GATE, GATES)
    return read_decoder(
        overlaid(config, under={"tie_word_embeddings": True}),
        kv_heads=_KV_HEADS,
        head_dim=_HEAD_DIM,
        activation=_GATE if gate == "gelu" else gate,  # published files mean the approximation by it
        qkv_bias=bias,
        out_bias=bias,
        norm_offset=1.0,
        embedding_scale=size(config, "hidden_size") ** 0.5,
    )


FAMILY = DecoderFamily(
    name="gemma",
    keys=DECODER_KEYS
    | rules(
        honoured=("attention_bias",),
        refused={
            "hidden_activation": Refused((_GATE,), "hidden_act says which activation the gate has"),
            "use_bidirectional_attention": Refused((False,), "a decoder's tokens see those before them"),
        },
    ),
    tokenizer="GemmaTokenizer",
    read=read,
)
