"""Granite: a llama that multiplies embeddings, what blocks give, scores of attention and logits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fastqps.models.families import llama
from fastqps.models.families.decoder import DecoderConfig
from fastqps.models.families.family import DecoderFamily
from fastqps.models.files.config_values import positive
from fastqps.models.files.keys import rules

FACTORS = rules(honoured=("embedding_multiplier", "residual_multiplier", "attention_multiplier", "logits_scaling"))


def read(config: Mapping[str, Any]) -> DecoderConfig:
    """The decoder that ``config`` describes."""
    return multiplied(llama.read(config), config)


def multiplied(decoder: DecoderConfig, config: Mapping[str, Any]) -> DecoderConfig:
    """The decoder with Granite's factors.

    Its residual is kept as if it were divided by their factor of blocks, so that these give what they give: only the
    embeddings and the epsilons of norms, to which the scale of a row means nothing else, change.
    """
    blocks = positive(config, "residual_multiplier", 1.0)
    return replace(
        decoder,
        attention_scale=positive(config, "attention_multiplier", 1.0),
        embedding_scale=positive(config, "embedding_multiplier", 1.0) / blocks,
        eps=decoder.eps / blocks**2,
        logits_scale=1 / positive(config, "logits_scaling", 1.0),
    )


FAMILY = DecoderFamily(name="granite", keys=llama.FAMILY.keys | FACTORS, encodes=False, read=read)
