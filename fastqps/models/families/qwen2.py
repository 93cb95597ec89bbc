"""Qwen2 and Qwen2.5: queries, keys and values have biases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastqps.models.families.decoder import DecoderConfig, read_decoder
from fastqps.models.families.family import DecoderFamily
from fastqps.models.files.config_keys import DECODER_KEYS
from fastqps.models.files.keys import rules

KEYS = DECODER_KEYS | rules(honoured=("use_sliding_window", "sliding_window", "max_window_layers"))
KV_HEADS = 32  # where the file does not name their number


def read(config: Mapping[str, Any]) -> DecoderConfig:
    """The decoder that ``config`` describes."""
    return read_decoder(config, windows=True, kv_heads=KV_HEADS, qkv_bias=True)


FAMILY = DecoderFamily(
    name="qwen2",
    keys=KEYS | rules(irrelevant=("attention_bias", "mlp_bias", "use_mrope")),
    tokenizer="Qwen2Tokenizer",
    tokenizer_decides=True,
    read=read,
)
