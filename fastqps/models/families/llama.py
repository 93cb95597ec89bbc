"""Llama, and SmolLM2, which is a llama with a tied head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastqps.models.families.decoder import DecoderConfig, read_decoder
from fastqps.models.families.family import DecoderFamily
from fastqps.models.files.config_keys import DECODER_KEYS
from fastqps.models.files.config_values import flag
from fastqps.models.files.keys import rules


def read(config: Mapping[str, Any]) -> DecoderConfig:
    """The decoder that ``config`` describes."""
    bias = flag(config, "attention_bias")
    return read_decoder(config, qkv_bias=bias, out_bias=bias, mlp_bias=flag(config, "mlp_bias"))


FAMILY = DecoderFamily(
    name="llama",
    keys=DECODER_KEYS | rules(honoured=("attention_bias", "mlp_bias")),
    read=read,
)
