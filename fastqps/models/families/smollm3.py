"""SmolLM3: a llama in which every fourth layer knows no positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fastqps.errors import ModelError
from fastqps.models.families.decoder import KINDS, DecoderConfig, overlaid, read_decoder
from fastqps.models.families.family import DecoderFamily
from fastqps.models.files.config_keys import DECODER_KEYS
from fastqps.models.files.config_values import count, flag, size
from fastqps.models.files.keys import rules

_KV_HEADS, _THETA = 4, 2_000_000.0  # where the file does not name them


def read(config: Mapping[str, Any]) -> DecoderConfig:
    """The decoder that ``config`` describes. Unless ``layer_types`` says otherwise, layers without positions slide."""
    bias, turns = flag(config, "attention_bias"), _turning_layers(config)
    kinds: dict[str, Any] = {}
    if config.get("layer_types") is None:
        slides = flag(config, "use_sliding_window") and config.get("sliding_window") is not None
        kinds["layer_types"] = [KINDS[slides and not turned] for turned in turns]
    decoder = read_decoder(
        overlaid(config, over=kinds, under={"tie_word_embeddings": True}),
        windows=True,
        kv_heads=_KV_HEADS,
        theta=_THETA,
        qkv_bias=bias,
        out_bias=bias,
        mlp_bias=flag(config, "mlp_bias"),
    )
    ropes = zip(decoder.ropes, turns, strict=True)
    return replace(decoder, ropes=tuple(rope if turned else None for rope, turned in ropes))


def _turning_layers(config: Mapping[str, Any]) -> list[bool]:
    """Whether positions turn the queries and keys of each layer."""
    layers, listed = count(config, "num_hidden_layers"), config.get("no_rope_layers")
    if listed is None:
        every = size(config, "no_rope_layer_interval", 4)
        return [(layer + 1) % every > 0 for layer in range(layers)]
    if not isinstance(listed, list) or len(listed) < layers or any(turned not in (0, 1) for turned in listed):
        raise ModelError(f"config.json: no_rope_layers is not supported: 0 or 1 for each of the {layers} layers is")
    return [bool(turned) for turned in listed[:layers]]


FAMILY = DecoderFamily(
    name="smollm3",
    keys=DECODER_KEYS
    | rules(
        honoured=(
            *("attention_bias", "mlp_bias", "no_rope_layers", "no_rope_layer_interval"),
            *("use_sliding_window", "sliding_window"),
        ),
        irrelevant=("max_window_layers",),
    ),
    read=read,
)
