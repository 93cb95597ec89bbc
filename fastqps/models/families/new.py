"""The type ``new`` of gte-multilingual and gte v1.5: GTE as the code published with those models has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fastqps.errors import ModelError
from fastqps.models.families import gte
from fastqps.models.families.encoder import BertConfig
from fastqps.models.families.family import EncoderFamily
from fastqps.models.families.rope import LinearRope, Rope
from fastqps.models.files.config_values import flag, positive, size
from fastqps.models.files.keys import Refused, rules

_OFF = (False,)
_APART = ("attention.q_proj", "attention.k_proj", "attention.v_proj")


def read(config: Mapping[str, Any]) -> BertConfig:
    """The encoder that ``config`` describes. Its defaults are those of its own code."""
    theta = positive(config, "rope_theta", 10_000.0)
    encoder = gte.encoder(config, size(config, "max_position_embeddings", 2048), Rope(theta=theta))
    encoder = replace(encoder, rotary=_rotary(config, theta, encoder.hidden // encoder.heads))
    if flag(config, "pack_qkv", True):
        return encoder
    return replace(encoder, tensors=replace(encoder.tensors, qkv=_APART))


def _rotary(config: Mapping[str, Any], theta: float, head_size: int) -> Rope:
    """The rotation for texts of any length: NTK scaling has another base, and stretches all positions alike."""
    scaling = config.get("rope_scaling")
    if not scaling:
        return Rope(theta=theta)
    if not isinstance(scaling, dict) or scaling.get("type") != "ntk" or scaling.get("mixed_b") is not None:
        raise ModelError(f"config.json: rope_scaling {scaling!r} is not supported; type ntk without mixed_b is")
    factor = positive(scaling, "factor", where="rope_scaling of config.json")
    if factor < 1:
        raise ModelError(f"config.json: rope_scaling with factor {factor} is not supported; 1 and more are")
    return LinearRope(theta=theta * factor, factor=factor ** (2 / head_size))


FAMILY = EncoderFamily(
    name="new",
    keys=gte.FAMILY.keys
    | rules(
        honoured=("pack_qkv", "rope_scaling"),
        irrelevant=("unpad_inputs", "use_memory_efficient_attention", "logn_attention_clip1"),
        refused={
            "position_embedding_type": Refused(("rope",), "positions are rotary"),
            "layer_norm_type": Refused(("layer_norm",), "norms are layer norms"),
            "rope_parameters": Refused((), "positions are read from rope_theta and rope_scaling"),
            "logn_attention_scale": Refused(_OFF, "scores are not scaled by the length of a text"),
        },
    ),
    code="Alibaba-NLP/new-impl",
    read=read,
    read_head=gte.FAMILY.read_head,
)
