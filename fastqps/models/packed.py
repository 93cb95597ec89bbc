"""A loaded model: an encoder and a head over packed tokens."""

from __future__ import annotations

from pathlib import Path

import torch

from fastqps.models.bert import NAMES, Bert
from fastqps.models.card import ModelCard
from fastqps.models.checkpoint import Checkpoint
from fastqps.models.heads import make_head
from fastqps.models.modernbert import ModernBert
from fastqps.models.step import Step
from fastqps.models.weights import Weights


class PackedModel:
    """Weights on the CPU in ``dtype``, laid out for use. ``Step`` → float32 [items, card.dimensions]."""

    def __init__(self, card: ModelCard, dtype: torch.dtype) -> None:
        checkpoint = Checkpoint.open(Path(card.path))
        config, family = checkpoint.config, checkpoint.family
        prefix = "model." if family == "modernbert" else NAMES[family].prefix
        weights = Weights(checkpoint.weight_files(), (prefix,))
        self.card = card
        self.dtype = dtype
        self._encoder: Bert | ModernBert
        if family == "modernbert":
            self._encoder = ModernBert(weights, config, card.max_input_tokens, dtype)
        else:
            self._encoder = Bert(weights, family, config, dtype)
        self._head = make_head(checkpoint, weights, self._encoder.hidden, len(card.labels))

    def __call__(self, step: Step) -> torch.Tensor:
        with torch.inference_mode():
            return self._head(self._encoder(step), step)
