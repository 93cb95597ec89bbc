"""The configuration of a decoder's layers as an encoder, and what makes one of a decoder's checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from fastqps.errors import ModelError
from fastqps.models.families.decoder import DecoderConfig
from fastqps.models.families.encoder import EncoderConfig, HeadConfig, TokenLogits
from fastqps.models.families.family import DecoderFamily, EncoderFamily
from fastqps.models.families.llama_layer import LlamaOptions
from fastqps.models.families.rope import Rope
from fastqps.models.files.config_values import flag, size
from fastqps.models.files.generation_keys import GENERATION_KEYS
from fastqps.models.files.keys import rules

_WINDOW_MIN = 2  # positions: in a smaller window a token would see itself alone
# The keys of a decoder's config.json that mean something else where it gives vectors or scores.
_KEYS = rules(
    honoured=(
        *("id2label", "label2id", "num_labels", "problem_type"),
        *("pad_token_id", "bos_token_id", "cls_token_id", "eos_token_id", "sep_token_id"),
        *("sentence_transformers", "sbert_ce_default_activation_function"),
    ),
    irrelevant=GENERATION_KEYS,
)
_TOKEN_KEYS = ("token_classification_bias",)


@dataclass(frozen=True, kw_only=True)
class LlamaEncoderConfig(EncoderConfig, LlamaOptions):
    """A llama's layers, of which each has positions and a window of its own."""

    causal: bool  # a token sees those before it alone
    ropes: tuple[Rope | None, ...]  # by layer
    windows: tuple[int, ...]  # by layer: a token sees those at most as many positions away; 0: all


def encoder_of(family: DecoderFamily) -> EncoderFamily:
    """The family of the same checkpoints where they give vectors or scores: with a modules.json, or a score head.

    ``ModelError`` where there is none.
    """
    if not family.encodes:
        raise ModelError(f"a {family.name} is served as a generator alone, without a modules.json or a head for scores")

    def read(config: Mapping[str, Any]) -> LlamaEncoderConfig:
        return encoder_config(family.read(config))

    def read_logits(config: Mapping[str, Any]) -> TokenLogits:
        decoder = family.read(config)
        tensors = decoder.tensors
        return TokenLogits(tensors.words if decoder.tied_head else tensors.head, decoder.logits_scale)

    return EncoderFamily(
        name=family.name,
        keys=family.keys | _KEYS | (rules(honoured=_TOKEN_KEYS) if family.classifies_tokens else rules()),
        aliases=family.aliases,
        older=family.older,
        tokenizer=family.tokenizer,
        tokenizer_decides=family.tokenizer_decides,
        decodes=True,
        read=read,
        read_head=read_head,
        read_logits=read_logits,
        read_token_head=read_token_head if family.classifies_tokens else None,
    )


def read_head(config: Mapping[str, Any]) -> HeadConfig:
    """The head of a classifier: one projection of the last token that is no padding."""
    padding = size(config, "pad_token_id", smallest=0) if config.get("pad_token_id") is not None else None
    return HeadConfig(pooling="lasttoken", labels="score", labels_bias=False, skipped=padding)


def read_token_head(config: Mapping[str, Any]) -> HeadConfig:
    """The head of a token classifier: one projection, which most files have with a bias."""
    return HeadConfig(pooling="", labels="score", labels_bias=flag(config, "token_classification_bias", True))


def encoder_config(config: DecoderConfig) -> LlamaEncoderConfig:
    """The same layers as an encoder."""
    own = {field.name for field in fields(LlamaEncoderConfig)}
    return LlamaEncoderConfig(
        **{name: value for name, value in vars(config).items() if name in own} | {"windows": config.distances},
        positions=config.context,
    )
