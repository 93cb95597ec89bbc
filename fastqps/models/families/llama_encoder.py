"""The configuration of a decoder's layers as an encoder, and what makes one of a decoder's checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from fastqps.errors import ModelError
from fastqps.models.families.decoder import DecoderConfig, LlamaAttention, Rope
from fastqps.models.families.encoder import EncoderConfig, HeadConfig
from fastqps.models.families.family import DecoderFamily, EncoderFamily
from fastqps.models.files.config_values import flag, size
from fastqps.models.files.generation_keys import GENERATION_KEYS
from fastqps.models.files.keys import Rules, rules

_WINDOW_MIN = 2  # positions: in a smaller window a token would see itself alone
# The keys of a decoder's config.json that mean something else where it gives vectors or scores.
_KEYS = rules(
    honoured=(
        *("id2label", "label2id", "num_labels", "problem_type", "is_causal"),
        *("pad_token_id", "bos_token_id", "cls_token_id", "eos_token_id", "sep_token_id"),
        *("sentence_transformers", "sbert_ce_default_activation_function"),
    ),
    irrelevant=GENERATION_KEYS,
)


@dataclass(frozen=True, kw_only=True)
class LlamaEncoderConfig(EncoderConfig, LlamaAttention):
    """Root mean square norms before each block, rotary positions, gates, keys that heads share."""

    causal: bool  # a token sees those before it alone
    ropes: tuple[Rope, ...]  # by layer
    windows: tuple[int, ...]  # by layer: a token sees those at most as many positions away; 0: all
    block_norms: bool = False  # what a block gives is normalised, too, before it is added
    norm_offset: float = 0.0  # added to the weights of all norms
    embedding_scale: float = 1.0


def encoder_of(family: DecoderFamily) -> EncoderFamily:
    """The family of the same checkpoints where they give vectors or scores: with a modules.json, or a score head."""

    def read(config: Mapping[str, Any]) -> LlamaEncoderConfig:
        return encoder_config(family.read(config), flag(config, "is_causal", True))

    return EncoderFamily(
        name=family.name,
        keys=encoder_keys(family.keys) | rules(honoured=("token_classification_bias",)),
        aliases=family.aliases,
        older=family.older,
        tokenizer=family.tokenizer,
        tokenizer_decides=family.tokenizer_decides,
        decodes=True,
        read=read,
        read_head=read_head,
        read_logits=lambda config: "embed_tokens" if family.read(config).tied_head else "lm_head",
        read_token_head=read_token_head,
    )


def encoder_keys(keys: Rules) -> Rules:
    """A decoder's rules where it gives vectors or scores."""
    return keys | _KEYS


def read_head(config: Mapping[str, Any]) -> HeadConfig:
    """The head of a classifier: one projection of the last token that is no padding."""
    padding = size(config, "pad_token_id", smallest=0) if config.get("pad_token_id") is not None else None
    return HeadConfig(pooling="lasttoken", labels="score", labels_bias=False, skipped=padding)


def read_token_head(config: Mapping[str, Any]) -> HeadConfig:
    """The head of a token classifier: one projection, which most files have with a bias."""
    return HeadConfig(pooling="", labels="score", labels_bias=flag(config, "token_classification_bias", True))


def encoder_config(config: DecoderConfig, causal: bool) -> LlamaEncoderConfig:
    """The same layers as an encoder. In transformers, a window is one position shorter where attention is causal."""
    window = shown_window(config.window - 1 if causal else config.window) if config.window else 0
    own = {field.name for field in fields(LlamaEncoderConfig)}
    return LlamaEncoderConfig(
        **{name: value for name, value in vars(config).items() if name in own},
        prefixes=(config.prefix,),
        positions=config.context,
        activation="silu",
        causal=causal,
        ropes=(config.rope,) * config.layers,
        windows=tuple(window if slides else 0 for slides in config.sliding),
    )


def shown_window(distance: int) -> int:
    """``distance``; ``ModelError`` where a token would see itself alone."""
    if distance < 1:
        raise ModelError("config.json says a sliding_window in which a token sees itself alone; that is not supported")
    return distance
