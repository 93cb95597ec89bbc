"""Granite 4 where it is dense: Granite with a gate and its product in one tensor, and perhaps without positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fastqps.errors import ModelError
from fastqps.models.families import granite
from fastqps.models.families.decoder import DecoderConfig, read_decoder
from fastqps.models.families.family import DecoderFamily
from fastqps.models.families.llama_layer import LlamaTensors
from fastqps.models.files.config_keys import DECODER_KEYS
from fastqps.models.files.config_values import choice, count, flag, size
from fastqps.models.files.keys import rules

_TENSORS = LlamaTensors(up=("shared_mlp.input_linear",), down="shared_mlp.output_linear")
_DENSE = "granite-4.0-350m, -1b and -micro are dense"


def read(config: Mapping[str, Any]) -> DecoderConfig:
    """The decoder that ``config`` describes; ``ModelError`` where layers are recurrent, or have experts."""
    if count(config, "num_local_experts", 8, smallest=0):
        raise ModelError(f"config.json: num_local_experts is not supported: experts are not computed; {_DENSE}")
    kinds = config.get("layer_types")
    if not isinstance(kinds, list) or {"mamba", "linear_attention"} & set(map(str, kinds)):
        raise ModelError(f"config.json: layer_types is not supported: Mamba layers are not computed; {_DENSE}")
    bias = flag(config, "attention_bias")
    inner = size(config, "shared_intermediate_size", 1024)
    decoder = read_decoder(config, inner=inner, qkv_bias=bias, out_bias=bias, tensors=_TENSORS)
    if config.get("position_embedding_type") is None:
        decoder = replace(decoder, ropes=(None,) * decoder.layers)
    else:
        choice(config, "position_embedding_type", "rope", ("rope",))
    return granite.multiplied(decoder, config)


FAMILY = DecoderFamily(
    name="granitemoehybrid",
    keys=DECODER_KEYS
    | granite.FACTORS
    | rules(
        honoured=("attention_bias", "num_local_experts", "shared_intermediate_size", "position_embedding_type"),
        irrelevant=(
            *("intermediate_size", "mlp_bias", "num_experts_per_tok", "output_router_logits", "router_aux_loss_coef"),
            *("mamba_n_heads", "mamba_n_groups", "mamba_d_state", "mamba_d_head", "mamba_d_conv", "mamba_expand"),
            *("mamba_chunk_size", "mamba_conv_bias", "mamba_proj_bias", "time_step_limit", "time_step_min"),
            *("time_step_max", "time_step_floor", "normalization_function", "init_method"),
        ),
    ),
    aliases={"layers_block_type": "layer_types"},
    encodes=False,
    read=read,
)
