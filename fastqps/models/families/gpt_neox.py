"""GPT-NeoX, which Pythia is: blocks that read the same sum, each with a layer norm, and a part of each head turned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastqps.models.families.decoder import DecoderConfig, read_sizes
from fastqps.models.families.encoder import ACTIVATIONS
from fastqps.models.families.family import DecoderFamily
from fastqps.models.families.llama_layer import LlamaTensors
from fastqps.models.families.rope import check_turned, read_rope
from fastqps.models.files.config_keys import GENERATOR_KEYS
from fastqps.models.files.config_values import choice, flag, positive, size
from fastqps.models.files.keys import rules

_TENSORS = LlamaTensors(
    words="embed_in",
    norm="final_layer_norm",
    head="embed_out",
    qkv=("attention.query_key_value",),
    out="attention.dense",
    up=("mlp.dense_h_to_4h",),
    down="mlp.dense_4h_to_h",
    buffers=("attention.bias", "attention.masked_bias"),
    by_head=True,
)
# What positions are read by, and the family's own names for it.
_POSITIONS = {
    "rope_parameters": "rope_parameters",
    "rope_scaling": "rope_scaling",
    "rope_theta": "rotary_emb_base",
    "partial_rotary_factor": "rotary_pct",
}


def read(config: Mapping[str, Any]) -> DecoderConfig:
    """The decoder that ``config`` describes."""
    sizes, bias = read_sizes(config), flag(config, "attention_bias", True)
    stated = {name: config[own] for name, own in _POSITIONS.items() if own in config}
    rope = read_rope(stated, sizes["context"], 10_000.0, 0.25)
    check_turned(rope, sizes["head_dim"])
    return DecoderConfig(
        **sizes | {"ropes": (rope,) * sizes["layers"]},
        inner=size(config, "intermediate_size"),
        eps=positive(config, "layer_norm_eps", 1e-5),
        tied_head=flag(config, "tie_word_embeddings"),
        activation=choice(config, "hidden_act", "gelu", ACTIVATIONS),
        qkv_bias=bias,
        out_bias=bias,
        mlp_bias=True,
        norm_kind="layer",
        norm_bias=True,
        gated=False,
        parallel=flag(config, "use_parallel_residual", True),
        prefixes=("gpt_neox.",),
        tensors=_TENSORS,
    )


FAMILY = DecoderFamily(
    name="gpt_neox",
    keys=GENERATOR_KEYS
    | rules(
        honoured=(
            *("intermediate_size", "hidden_act", "layer_norm_eps", "attention_bias", "use_parallel_residual"),
            *("rope_parameters", "rope_scaling", "rotary_emb_base", "rotary_pct"),
        ),
        irrelevant=("hidden_dropout", "classifier_dropout", "rope_theta"),
    ),
    tokenizer="GPTNeoXTokenizer",
    encodes=False,
    read=read,
)
