"""Gemma 3 as an encoder, which EmbeddingGemma is: sliding and full layers, each kind with positions of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastqps.models.families.decoder import (
    KINDS,
    Rope,
    layer_kinds,
    read_head_dim,
    read_kv_heads,
    read_rope,
    ropes_by_kind,
)
from fastqps.models.families.encoder import GATES
from fastqps.models.families.family import EncoderFamily
from fastqps.models.families.llama_encoder import LlamaEncoderConfig, encoder_keys, read_head, shown_window
from fastqps.models.families.llama_layer import LlamaTensors
from fastqps.models.files.config_keys import DECODER_KEYS
from fastqps.models.files.config_values import choice, count, flag, positive, size
from fastqps.models.files.keys import Refused, rules

_FULL, _SLIDING = KINDS
_THETA = {_FULL: 1_000_000.0, _SLIDING: 10_000.0}
_OLD_THETA = {_FULL: "rope_theta", _SLIDING: "rope_local_base_freq"}
_TENSORS = LlamaTensors(
    attention_post_norm="post_attention_layernorm",
    mlp_norm="pre_feedforward_layernorm",
    mlp_post_norm="post_feedforward_layernorm",
)
_CAPPED = Refused((), "scores are not capped")


def read(config: Mapping[str, Any]) -> LlamaEncoderConfig:
    """The encoder that ``config`` describes: one of both directions, or one that sees what came before alone."""
    layers, heads = count(config, "num_hidden_layers"), count(config, "num_attention_heads")
    context, hidden = size(config, "max_position_embeddings"), size(config, "hidden_size")
    both = config.get("use_bidirectional_attention") is not None and flag(config, "use_bidirectional_attention")
    kinds = _layer_kinds(config, layers)
    ropes = {kind: _rope(config, kind, context) for kind in _THETA}
    window = _window(config, both) if _SLIDING in kinds else 0
    bias = flag(config, "attention_bias")
    return LlamaEncoderConfig(
        prefixes=("model.",),
        hidden=hidden,
        inner=size(config, "intermediate_size"),
        layers=layers,
        heads=heads,
        vocab=size(config, "vocab_size"),
        positions=context,
        eps=positive(config, "rms_norm_eps", 1e-6),
        activation=choice(config, "hidden_activation", "gelu_pytorch_tanh", GATES),
        kv_heads=read_kv_heads(config, heads, 4),
        head_dim=read_head_dim(config, 256),
        causal=not both,
        ropes=tuple(ropes[kind] for kind in kinds),
        windows=tuple(window if kind == _SLIDING else 0 for kind in kinds),
        attention_scale=positive(config, "query_pre_attn_scalar", 256) ** -0.5,
        qkv_bias=bias,
        out_bias=bias,
        qk_norm=True,
        norm_offset=1.0,
        embedding_scale=hidden**0.5,
        tensors=_TENSORS,
    )


def _layer_kinds(config: Mapping[str, Any], layers: int) -> tuple[str, ...]:
    """Older files say that every n-th layer is full."""
    every = size(config, "sliding_window_pattern", 6)
    return layer_kinds(config, KINDS) or tuple(_SLIDING if (i + 1) % every else _FULL for i in range(layers))


def _window(config: Mapping[str, Any], both: bool) -> int:
    """The distance that a token sees: half of the window to each side, or the window less itself."""
    window = size(config, "sliding_window", 4096)
    return shown_window(window // 2 if both else window - 1)


def _rope(config: Mapping[str, Any], kind: str, context: int) -> Rope:
    """The rotation of one kind of layers. Older files have keys of their own, and their scaling is for full layers."""
    own = ropes_by_kind(config, KINDS)[kind]
    if kind == _FULL and config.get("rope_scaling"):
        own |= config["rope_scaling"]
    own.setdefault("rope_theta", positive(config, _OLD_THETA[kind], _THETA[kind]))
    return read_rope(own, f"rope_parameters.{kind} of config.json", context)


FAMILY = EncoderFamily(
    name="gemma3_text",
    keys=encoder_keys(DECODER_KEYS)
    | rules(
        honoured=(
            *("use_bidirectional_attention", "hidden_activation", "query_pre_attn_scalar", "attention_bias"),
            *("sliding_window", "sliding_window_pattern", "rope_local_base_freq"),
        ),
        irrelevant=(
            *("hidden_act", "tie_word_embeddings", "final_logit_softcapping", "_sliding_window_pattern"),
            *("default_theta", "original_max_position_embeddings", "partial_rotary_factor", "cache_implementation"),
        ),
        refused={
            "attn_logit_softcapping": _CAPPED,
            "is_causal": Refused((), "use_bidirectional_attention says which tokens are seen"),
        },
    ),
    tokenizer="GemmaTokenizer",
    decodes=True,
    read=read,
    read_head=read_head,
)
