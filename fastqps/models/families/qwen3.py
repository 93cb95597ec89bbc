"""Qwen3: queries and keys are normalised, and the size of a head does not follow the width."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastqps.models.families.decoder import DecoderConfig, read_decoder
from fastqps.models.families.family import DecoderFamily
from fastqps.models.families.qwen2 import KEYS, KV_HEADS
from fastqps.models.files.config_values import flag
from fastqps.models.files.keys import rules

_HEAD_DIM = 128  # where the file does not name it


def read(config: Mapping[str, Any]) -> DecoderConfig:
    """The decoder that ``config`` describes."""
    bias = flag(config, "attention_bias")
    return read_decoder(
        config, windows=True, kv_heads=KV_HEADS, head_dim=_HEAD_DIM, qkv_bias=bias, out_bias=bias, qk_norm=True
    )


FAMILY = DecoderFamily(
    name="qwen3",
    keys=KEYS | rules(honoured=("attention_bias",), irrelevant=("mlp_bias",)),
    tokenizer="Qwen2Tokenizer",
    read=read,
)
