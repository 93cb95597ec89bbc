"""Mistral: a llama without biases, in which every token may see a window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastqps.models.families.decoder import DecoderConfig, read_decoder
from fastqps.models.families.family import DecoderFamily
from fastqps.models.files.config_keys import DECODER_KEYS
from fastqps.models.files.config_values import size
from fastqps.models.files.keys import rules

_KV_HEADS, _WINDOW = 8, 4096  # where the file does not name them


def read(config: Mapping[str, Any]) -> DecoderConfig:
    """The decoder that ``config`` describes. A window that is null is none.

    All layers slide, unless ``layer_types`` says which do: transformers reads such a file as a Ministral's.
    """
    slides = config.get("sliding_window", _WINDOW) is not None
    window = size(config, "sliding_window", _WINDOW) if slides else 0
    return read_decoder(config, kv_heads=_KV_HEADS, window=window)


FAMILY = DecoderFamily(
    name="mistral",
    keys=DECODER_KEYS
    | rules(
        honoured=("sliding_window",),
        irrelevant=("attention_bias", "mlp_bias", "use_sliding_window", "max_window_layers"),
    ),
    tokenizer_decides=True,
    read=read,
)
