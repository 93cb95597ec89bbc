"""Phi-3 and Phi-4-mini: a llama whose products lie in one tensor, and in which a share of each head may be turned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastqps.models.families.decoder import DecoderConfig, overlaid, read_decoder
from fastqps.models.families.family import DecoderFamily
from fastqps.models.families.llama_layer import LlamaTensors
from fastqps.models.files.config_keys import DECODER_KEYS
from fastqps.models.files.config_values import size
from fastqps.models.files.keys import Refused, rules

_DEFAULTS = {"rms_norm_eps": 1e-5, "original_max_position_embeddings": 4096}  # where the file does not name them
_LONG = {"su": "longrope", "yarn": "longrope"}  # other names that files have for it
_TENSORS = LlamaTensors(qkv=("self_attn.qkv_proj",), up=("mlp.gate_up_proj",))


def read(config: Mapping[str, Any]) -> DecoderConfig:
    """The decoder that ``config`` describes. All layers slide if there is a window."""
    ropes = {key: config.get(key) for key in ("rope_scaling", "rope_parameters")}
    long = {
        key: {name: _LONG.get(str(value), value) for name, value in rope.items()}
        for key, rope in ropes.items()
        if isinstance(rope, dict)
    }
    window = size(config, "sliding_window") if config.get("sliding_window") is not None else 0
    return read_decoder(
        overlaid(config, over=long | {"layer_types": None}, under=_DEFAULTS),
        window=window,
        turned=1.0,
        tensors=_TENSORS,
    )


FAMILY = DecoderFamily(
    name="phi3",
    keys=DECODER_KEYS
    | rules(
        honoured=("partial_rotary_factor", "sliding_window"),
        irrelevant=(
            *("resid_pdrop", "embd_pdrop", "attention_bias", "mlp_bias", "lm_head_bias"),
            *("full_attn_mod", "interpolate_factor", "use_sliding_window"),
        ),
        refused={"layer_types": Refused((), "all layers slide, or none")},
    ),
    read=read,
)
