"""RoBERTa, and XLM-RoBERTa and CamemBERT, which have its layout with tokenizers of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastqps.models.families import bert
from fastqps.models.families.encoder import BertConfig, HeadConfig, VocabularyHead
from fastqps.models.families.family import EncoderFamily
from fastqps.models.files.config_values import flag, positive, size


def read(config: Mapping[str, Any]) -> BertConfig:
    """BERT's keys and layout. Positions begin behind the id of padding, which is not counted."""
    return bert.read(config, "roberta.", size(config, "pad_token_id", 1, smallest=0) + 1)


def read_vocabulary_head(config: Mapping[str, Any]) -> VocabularyHead:
    """The head of ``RobertaForMaskedLM``, whose activation is gelu whatever hidden_act says."""
    return VocabularyHead(
        dense="lm_head.dense",
        activation="gelu",
        norm="lm_head.layer_norm",
        decoder="lm_head.decoder",
        bias="lm_head.bias",
        width=size(config, "hidden_size"),
        eps=positive(config, "layer_norm_eps", 1e-12),
        tied=flag(config, "tie_word_embeddings", True),
    )


FAMILY = EncoderFamily(
    name="roberta",
    keys=bert.KEYS,
    tokenizer="RobertaTokenizer",
    read=read,
    read_head=lambda _: HeadConfig(
        pooling="cls", dense="classifier.dense", activation="tanh", labels="classifier.out_proj"
    ),
    read_vocabulary_head=read_vocabulary_head,
)
