"""ELECTRA: BERT's layout under another prefix, with embeddings that may be narrower."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fastqps.models.families import bert
from fastqps.models.families.encoder import BertConfig, HeadConfig, VocabularyHead
from fastqps.models.families.family import EncoderFamily
from fastqps.models.files.config_values import size
from fastqps.models.files.keys import rules


def read(config: Mapping[str, Any]) -> BertConfig:
    """BERT's configuration, with a projection behind embeddings of another width."""
    encoder, width = bert.read(config, "electra."), size(config, "embedding_size", 128)
    return encoder if width == encoder.hidden else replace(encoder, embedding=width)


def _read_vocabulary_head(config: Mapping[str, Any]) -> VocabularyHead:
    """The head of a generator. It has no activation but gelu."""
    names = ("generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head")
    return bert.read_vocabulary_head(config, *names, activation="gelu", width=size(config, "embedding_size", 128))


FAMILY = EncoderFamily(
    name="electra",
    keys=bert.KEYS
    | rules(
        honoured=("embedding_size",),
        irrelevant=("summary_activation", "summary_last_dropout", "summary_type", "summary_use_proj"),
    ),
    tokenizer="BertTokenizer",
    read=read,
    read_head=lambda config: HeadConfig(
        pooling="cls", dense="classifier.dense", activation="gelu", labels="classifier.out_proj"
    ),
    read_vocabulary_head=_read_vocabulary_head,
)
