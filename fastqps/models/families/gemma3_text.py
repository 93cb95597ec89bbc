"""Gemma 3's text model, which EmbeddingGemma is too: sliding and full layers, each kind with positions of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastqps.models.families.decoder import KINDS, DecoderConfig, layer_kinds, read_head_dim, read_kv_heads
from fastqps.models.families.encoder import GATES
from fastqps.models.families.family import DecoderFamily
from fastqps.models.families.llama_layer import LlamaTensors
from fastqps.models.families.rope import Rope, rope_of, ropes_by_kind
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


def read(config: Mapping[str, Any]) -> DecoderConfig:
    """The model that ``config`` describes: one that sees what came before alone, or one of both directions."""
    layers, heads = count(config, "num_hidden_layers"), count(config, "num_attention_heads")
    context, hidden = size(config, "max_position_embeddings"), size(config, "hidden_size")
    both = config.get("use_bidirectional_attention") is not None and flag(config, "use_bidirectional_attention")
    kinds = _layer_kinds(config, layers)
    ropes = {kind: _rope(config, kind, context) for kind in _THETA}
    window = size(config, "sliding_window", 4096, smallest=2) if _SLIDING in kinds else 0
    bias = flag(config, "attention_bias")
    return DecoderConfig(
        hidden=hidden,
        inner=size(config, "intermediate_size"),
        layers=layers,
        heads=heads,
        vocab=size(config, "vocab_size"),
        context=context,
        eps=positive(config, "rms_norm_eps", 1e-6),
        activation=choice(config, "hidden_activation", "gelu_pytorch_tanh", GATES),
        kv_heads=read_kv_heads(config, heads, 4),
        head_dim=read_head_dim(config, 256),
        causal=not both,
        ropes=tuple(ropes[kind] for kind in kinds),
        windows=tuple((window // 2 if both else window) if kind == _SLIDING else 0 for kind in kinds),
        tied_head=flag(config, "tie_word_embeddings", True),
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


def _rope(config: Mapping[str, Any], kind: str, context: int) -> Rope:
    """The rotation of one kind of layers. Older files have keys of their own, and their scaling is for full layers."""
    own = ropes_by_kind(config, KINDS)[kind]
    if kind == _FULL and config.get("rope_scaling"):
        own |= config["rope_scaling"]
    own.setdefault("rope_theta", positive(config, _OLD_THETA[kind], _THETA[kind]))
    return rope_of(own, f"rope_parameters.{kind} of config.json", context)


FAMILY = DecoderFamily(
    name="gemma3_text",
    keys=DECODER_KEYS
    | rules(
        honoured=(
            *("use_bidirectional_attention", "hidden_activation", "query_pre_attn_scalar", "attention_bias"),
            *("sliding_window", "sliding_window_pattern", "rope_local_base_freq"),
        ),
        irrelevant=(
            *("hidden_act", "_sliding_window_pattern"),
            *("default_theta", "original_max_position_embeddings", "partial_rotary_factor", "cache_implementation"),
        ),
        refused={
            "attn_logit_softcapping": Refused((), "scores are not capped"),
            "final_logit_softcapping": Refused((), "logits are not capped"),
            "is_causal": Refused((), "use_bidirectional_attention says which tokens are seen"),
        },
    ),
    tokenizer="GemmaTokenizer",
    classifies_tokens=False,
    read=read,
)
