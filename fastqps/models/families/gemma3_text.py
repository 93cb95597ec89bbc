"""Gemma 3's text model, which EmbeddingGemma is too: sliding and full layers, each kind with positions of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastqps.models.families.decoder import KINDS, DecoderConfig
from fastqps.models.families.family import DecoderFamily
from fastqps.models.families.gemma2 import KEYS, kinds_of, read_gemma
from fastqps.models.families.rope import Rope, rope_object, rope_of, ropes_by_kind
from fastqps.models.files.config_values import flag, positive, size
from fastqps.models.files.keys import Refused, rules

_FULL, _SLIDING = KINDS
_THETA = {_FULL: 1_000_000.0, _SLIDING: 10_000.0}
_OLD_THETA = {_FULL: "rope_theta", _SLIDING: "rope_local_base_freq"}


def read(config: Mapping[str, Any]) -> DecoderConfig:
    """The model that ``config`` describes: one that sees what came before alone, or one of both directions."""
    both = config.get("use_bidirectional_attention") is not None and flag(config, "use_bidirectional_attention")
    kinds = kinds_of(config, size(config, "sliding_window_pattern", 6))
    ropes = {kind: _rope(config, kind) for kind in KINDS}
    return read_gemma(config, kinds, both=both, ropes=tuple(ropes[kind] for kind in kinds), qk_norm=True)


def _rope(config: Mapping[str, Any], kind: str) -> Rope:
    """The rotation of one kind of layers. Older files have keys of their own, and their scaling is for full layers."""
    own = ropes_by_kind(config, KINDS)[kind]
    if kind == _FULL:
        own |= rope_object(config, "rope_scaling")
    own.setdefault("rope_theta", positive(config, _OLD_THETA[kind], _THETA[kind]))
    return rope_of(own, f"rope_parameters.{kind} of config.json", size(config, "max_position_embeddings"))


FAMILY = DecoderFamily(
    name="gemma3_text",
    keys=KEYS
    | rules(
        honoured=("use_bidirectional_attention", "sliding_window_pattern", "rope_local_base_freq"),
        irrelevant=(
            *("_sliding_window_pattern", "default_theta"),
            *("original_max_position_embeddings", "partial_rotary_factor"),
        ),
        refused={
            "attn_logit_softcapping": Refused((), "scores are not capped"),
            "final_logit_softcapping": Refused((), "logits are not capped"),
        },
    ),
    tokenizer="GemmaTokenizer",
    classifies_tokens=False,
    read=read,
)
