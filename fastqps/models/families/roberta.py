"""RoBERTa, and XLM-RoBERTa and CamemBERT, which have its layout with tokenizers of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastqps.models.families import bert
from fastqps.models.families.encoder import BertConfig, HeadConfig, VocabularyHead
from fastqps.models.families.family import EncoderFamily
from fastqps.models.files.config_values import size


def read(config: Mapping[str, Any]) -> BertConfig:
    """BERT's keys and layout. Positions begin behind the id of padding, which is not counted."""
    return bert.read(config, "roberta.", position_offset=size(config, "pad_token_id", 1, smallest=0) + 1)


def read_vocabulary_head(config: Mapping[str, Any]) -> VocabularyHead:
    """The head of ``RobertaForMaskedLM``, whose activation is gelu whatever hidden_act says."""
    names = ("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder")
    return bert.read_vocabulary_head(config, *names, bias="lm_head.bias", activation="gelu")


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
