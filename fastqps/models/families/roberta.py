"""RoBERTa, and XLM-RoBERTa and CamemBERT, which have its layout with tokenizers of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastqps.models.families import bert
from fastqps.models.families.encoder import BertConfig, HeadConfig
from fastqps.models.families.family import EncoderFamily
from fastqps.models.files.config_values import size


def read(config: Mapping[str, Any]) -> BertConfig:
    """BERT's keys and layout. Positions begin behind the id of padding, which is not counted."""
    return bert.read(config, "roberta.", size(config, "pad_token_id", 1, least=0) + 1)


FAMILY = EncoderFamily(
    name="roberta",
    keys=bert.KEYS,
    tokenizer="RobertaTokenizer",
    read=read,
    read_head=lambda _: HeadConfig(
        pooling="cls", dense="classifier.dense", activation="tanh", labels="classifier.out_proj"
    ),
)
