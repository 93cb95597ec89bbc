"""A loaded model: an encoder and a head over packed tokens."""

from __future__ import annotations

from pathlib import Path

import torch

from fastqps.architectures.bert import NAMES, Bert
from fastqps.architectures.heads import make_head
from fastqps.architectures.modernbert import ModernBert
from fastqps.architectures.weights import Weights
from fastqps.models.card import ModelCard
from fastqps.models.checkpoint import Checkpoint
from fastqps.models.encoder_config import ModernBertConfig, read_encoder_config
from fastqps.ops.interface import EncoderOps
from fastqps.ops.step import Step


class PackedModel:
    """``Step`` → float32 [items, card.dimensions], computed by ``ops``, which hold the weights."""

    def __init__(self, card: ModelCard, ops: EncoderOps) -> None:
        checkpoint = Checkpoint.open(Path(card.path))
        family, config = checkpoint.family, read_encoder_config(checkpoint.config, checkpoint.family)
        prefix = "model." if family == "modernbert" else NAMES[family].prefix
        weights = Weights(checkpoint.weight_files(), (prefix,), data=ops.reads_weights)
        self.card = card
        self._encoder: Bert | ModernBert
        if isinstance(config, ModernBertConfig):
            self._encoder = ModernBert(weights, config, card.max_input_tokens, ops)
        else:
            self._encoder = Bert(weights, family, config, ops)
        self.hidden = self._encoder.hidden  # the model's width
        self._head = make_head(checkpoint, weights, self._encoder.hidden, len(card.labels), ops)

    def __call__(self, step: Step) -> torch.Tensor:
        with torch.inference_mode():
            return self._head(self._encoder(step), step)
