"""OLMo 2: norms behind blocks in the place of those before them, and of all queries and all keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastqps.models.families.decoder import DecoderConfig, read_decoder
from fastqps.models.families.family import DecoderFamily
from fastqps.models.families.llama_layer import LlamaTensors
from fastqps.models.files.config_keys import DECODER_KEYS
from fastqps.models.files.config_values import flag, positive
from fastqps.models.files.keys import rules

_TENSORS = LlamaTensors(
    attention_norm="",
    attention_post_norm="post_attention_layernorm",
    mlp_norm="",
    mlp_post_norm="post_feedforward_layernorm",
)


def read(config: Mapping[str, Any]) -> DecoderConfig:
    """The decoder that ``config`` describes."""
    bias, eps = flag(config, "attention_bias"), positive(config, "rms_norm_eps", 1e-5)
    return read_decoder(config, eps=eps, qkv_bias=bias, out_bias=bias, wide_qk_norm=True, tensors=_TENSORS)


FAMILY = DecoderFamily(
    name="olmo2",
    keys=DECODER_KEYS | rules(honoured=("attention_bias",), irrelevant=("mlp_bias",)),
    encodes=False,
    read=read,
)
