"""Gemma 2: blocks between two norms, every other layer slides, scores and logits are capped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastqps.models.families.decoder import KINDS, DecoderConfig, layer_kinds, read_head_dim, read_kv_heads
from fastqps.models.families.encoder import GATES
from fastqps.models.families.family import DecoderFamily
from fastqps.models.families.llama_layer import LlamaTensors
from fastqps.models.families.rope import read_rope
from fastqps.models.files.config_keys import DECODER_KEYS
from fastqps.models.files.config_values import choice, count, flag, positive, size
from fastqps.models.files.keys import Refused, rules

KEYS = DECODER_KEYS | rules(
    honoured=("hidden_activation", "query_pre_attn_scalar", "attention_bias", "sliding_window"),
    irrelevant=("hidden_act", "cache_implementation"),
    refused={"is_causal": Refused((), "use_bidirectional_attention says which tokens are seen")},
)
_TENSORS = LlamaTensors(
    attention_post_norm="post_attention_layernorm",
    mlp_norm="pre_feedforward_layernorm",
    mlp_post_norm="post_feedforward_layernorm",
)


def read(config: Mapping[str, Any]) -> DecoderConfig:
    """The decoder that ``config`` describes."""
    rope = read_rope(config, size(config, "max_position_embeddings"), 10_000.0, None)
    kinds = kinds_of(config, 2)
    return read_gemma(
        config,
        kinds,
        ropes=(rope,) * len(kinds),
        score_cap=_cap(config, "attn_logit_softcapping", 50.0),
        logits_cap=_cap(config, "final_logit_softcapping", 30.0),
    )


def read_gemma(config: Mapping[str, Any], kinds: Sequence[str], *, both: bool = False, **own: Any) -> DecoderConfig:
    """A Gemma with layers of these kinds. ``both``: tokens see both directions, half of a window in each."""
    hidden, heads, bias = (
        size(config, "hidden_size"),
        count(config, "num_attention_heads"),
        flag(config, "attention_bias"),
    )
    window = size(config, "sliding_window", 4096, smallest=2) if KINDS[1] in kinds else 0
    return DecoderConfig(
        hidden=hidden,
        inner=size(config, "intermediate_size"),
        layers=len(kinds),
        heads=heads,
        vocab=size(config, "vocab_size"),
        context=size(config, "max_position_embeddings"),
        eps=positive(config, "rms_norm_eps", 1e-6),
        activation=choice(config, "hidden_activation", "gelu_pytorch_tanh", GATES),
        kv_heads=read_kv_heads(config, heads, 4),
        head_dim=read_head_dim(config, 256),
        causal=not both,
        windows=tuple((window // 2 if both else window) if kind == KINDS[1] else 0 for kind in kinds),
        tied_head=flag(config, "tie_word_embeddings", True),
        attention_scale=positive(config, "query_pre_attn_scalar", 256) ** -0.5,
        qkv_bias=bias,
        out_bias=bias,
        norm_offset=1.0,
        embedding_scale=hidden**0.5,
        tensors=_TENSORS,
        **own,
    )


def kinds_of(config: Mapping[str, Any], every: int) -> tuple[str, ...]:
    """The kind of each layer; unless the file says it, each ``every``-th is full."""
    layers = count(config, "num_hidden_layers")
    return layer_kinds(config, KINDS) or tuple(KINDS[(i + 1) % every > 0] for i in range(layers))


def _cap(config: Mapping[str, Any], key: str, default: float) -> float:
    return 0.0 if config.get(key, default) is None else positive(config, key, default)


FAMILY = DecoderFamily(
    name="gemma2",
    keys=KEYS
    | rules(
        honoured=("attn_logit_softcapping", "final_logit_softcapping"),
        refused={"use_bidirectional_attention": Refused((False,), "a decoder's tokens see those before them")},
    ),
    tokenizer="GemmaTokenizer",
    encodes=False,
    read=read,
)
