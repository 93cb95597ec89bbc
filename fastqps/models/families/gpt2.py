"""GPT-2: learned positions, layer norms, an MLP without a gate, weights that are [inputs, outputs]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastqps.models.families.decoder import DecoderConfig, read_sizes
from fastqps.models.families.encoder import ACTIVATIONS
from fastqps.models.families.family import DecoderFamily
from fastqps.models.families.llama_layer import LlamaTensors
from fastqps.models.files.config_keys import GENERATOR_KEYS
from fastqps.models.files.config_values import choice, flag, positive, size
from fastqps.models.files.keys import Refused, rules

_TENSORS = LlamaTensors(
    words="wte",
    places="wpe",
    norm="ln_f",
    layers="h.",
    attention_norm="ln_1",
    qkv=("attn.c_attn",),
    out="attn.c_proj",
    mlp_norm="ln_2",
    up=("mlp.c_fc",),
    down="mlp.c_proj",
    buffers=("attn.bias", "attn.masked_bias"),
    transposed=True,
)


def read(config: Mapping[str, Any]) -> DecoderConfig:
    """The decoder that ``config`` describes."""
    sizes = read_sizes(config)
    return DecoderConfig(
        **sizes,
        inner=4 * sizes["hidden"] if config.get("n_inner") is None else size(config, "n_inner"),
        eps=positive(config, "layer_norm_epsilon", 1e-5),
        tied_head=flag(config, "tie_word_embeddings", True),
        activation=choice(config, "activation_function", "gelu_new", ACTIVATIONS),
        qkv_bias=True,
        out_bias=True,
        mlp_bias=True,
        norm_kind="layer",
        norm_bias=True,
        gated=False,
        prefixes=("transformer.",),
        tensors=_TENSORS,
    )


FAMILY = DecoderFamily(
    name="gpt2",
    keys=GENERATOR_KEYS
    | rules(
        honoured=("n_inner", "activation_function", "layer_norm_epsilon"),
        irrelevant=(
            *("n_ctx", "resid_pdrop", "embd_pdrop", "attn_pdrop", "reorder_and_upcast_attn"),
            *("summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels"),
            *("summary_first_dropout", "predict_special_tokens"),
        ),
        refused={
            "scale_attn_weights": Refused((True,), "scores are divided by the square root of a head's size"),
            "scale_attn_by_inverse_layer_idx": Refused((False,), "scores of all layers have one scale"),
        },
    ),
    older={
        "n_embd": "hidden_size",
        "n_layer": "num_hidden_layers",
        "n_head": "num_attention_heads",
        "n_positions": "max_position_embeddings",
    },
    tokenizer="GPT2Tokenizer",
    encodes=False,
    read=read,
)
