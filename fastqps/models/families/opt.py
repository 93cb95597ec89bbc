"""OPT: learned positions from the third row on, layer norms, an MLP without a gate; words may be narrower."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastqps.models.families.decoder import DecoderConfig, read_sizes
from fastqps.models.families.encoder import ACTIVATIONS
from fastqps.models.families.family import DecoderFamily
from fastqps.models.families.llama_layer import LlamaTensors
from fastqps.models.files.config_keys import GENERATOR_KEYS
from fastqps.models.files.config_values import choice, flag, size
from fastqps.models.files.keys import Refused, rules

_OF_ATTENTION, _OF_MLP = "self_attn_layer_norm", "final_layer_norm"


def read(config: Mapping[str, Any]) -> DecoderConfig:
    """The decoder that ``config`` describes. OPT-350m normalises sums, not what blocks read."""
    sizes, bias = read_sizes(config), flag(config, "enable_bias", True)
    normed_sums = not flag(config, "do_layer_norm_before", True)
    width = sizes["hidden"]
    if config.get("word_embed_proj_dim") is not None:
        width = size(config, "word_embed_proj_dim")
    last = f"layers.{sizes['layers'] - 1}.{_OF_MLP}"
    tensors = LlamaTensors(
        places="embed_positions",
        project_in="project_in",
        project_out="project_out",
        norm=last if normed_sums else "final_layer_norm",
        attention_norm=_OF_MLP if normed_sums else _OF_ATTENTION,
        out="self_attn.out_proj",
        mlp_norm=_OF_ATTENTION if normed_sums else _OF_MLP,
        up=("fc1",),
        down="fc2",
    )
    return DecoderConfig(
        **sizes,
        inner=size(config, "ffn_dim"),
        embedding=None if width == sizes["hidden"] else width,
        first_place=2,
        eps=1e-5,
        tied_head=flag(config, "tie_word_embeddings", True),
        activation=choice(config, "activation_function", "relu", ACTIVATIONS),
        qkv_bias=bias,
        out_bias=bias,
        mlp_bias=bias,
        norm_kind="layer",
        norm_bias=True,
        gated=False,
        normed_sums=normed_sums,
        prefixes=("model.decoder.", "decoder."),
        tensors=tensors,
    )


FAMILY = DecoderFamily(
    name="opt",
    keys=GENERATOR_KEYS
    | rules(
        honoured=("ffn_dim", "activation_function", "do_layer_norm_before", "word_embed_proj_dim", "enable_bias"),
        irrelevant=("dropout", "activation_dropout", "layerdrop", "init_std"),
        refused={
            "_remove_final_layer_norm": Refused((False,), "the last norm is computed"),
            "layer_norm_elementwise_affine": Refused((True,), "norms have weights and biases"),
        },
    ),
    tokenizer="GPT2Tokenizer",
    encodes=False,
    read=read,
)
