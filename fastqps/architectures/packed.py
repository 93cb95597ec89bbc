"""A loaded model: an encoder and a head over packed tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch

from fastqps.architectures.bert import Bert
from fastqps.architectures.heads import Head, make_head
from fastqps.architectures.llama_encoder import LlamaEncoder
from fastqps.architectures.modernbert import ModernBert
from fastqps.architectures.t5 import T5
from fastqps.architectures.weights import Weights
from fastqps.errors import ModelError
from fastqps.models.card import ModelCard
from fastqps.models.checkpoint import Checkpoint
from fastqps.models.families.encoder import BertConfig, EncoderConfig, ModernBertConfig, T5Config
from fastqps.models.families.llama_encoder import LlamaEncoderConfig
from fastqps.ops.interface import EncoderOps
from fastqps.ops.step import Step


class Encoder(Protocol):
    """``Step`` → last hidden states [tokens, hidden]."""

    hidden: int

    def __call__(self, step: Step) -> torch.Tensor: ...


# (weights, configuration, longest input in tokens, operations) → the encoder, by the class of the configuration.
_ENCODERS: Mapping[type[EncoderConfig], Callable[[Weights, Any, int, EncoderOps], Encoder]] = {
    BertConfig: Bert,
    LlamaEncoderConfig: LlamaEncoder,
    ModernBertConfig: ModernBert,
    T5Config: T5,
}


class PackedModel:
    """``Step`` → float32 [rows, card.dimensions], computed by ``ops``, which hold the weights.

    There is a row for each item, or where ``card.traits.by_token`` says so for each token.
    """

    def __init__(self, card: ModelCard, ops: EncoderOps) -> None:
        checkpoint = Checkpoint.of(card)
        config = checkpoint.encoder_config()
        if type(config) not in _ENCODERS:
            raise ModelError(f"{card.path}: no architecture computes a {type(config).__name__}")
        weights = Weights(checkpoint.weight_files(), config.prefixes, ops.reads_weights, checkpoint.adapter)
        self.card, self.ops = card, ops
        self._encoder = _ENCODERS[type(config)](weights, config, card.max_input_tokens, ops)
        self.hidden = self._encoder.hidden  # the model's width
        self._head = make_head(card, checkpoint, weights, config, ops)
        weights.close()
        self._lacks_opening = bool(card.opening_ids)

    def keep_opening(self) -> None:
        """Computes what items can begin with (``card.opening_ids``), unless that is done: before a step of items."""
        if self._lacks_opening:
            self._lacks_opening = False
            assert isinstance(self._encoder, LlamaEncoder), "a model with an opening is causal"
            with torch.inference_mode():
                self._encoder.keep_opening(self.card.opening_ids)

    def __call__(self, step: Step) -> torch.Tensor:
        encoder, head = self._encoder, self._head
        with torch.inference_mode():
            if isinstance(encoder, LlamaEncoder) and isinstance(head, Head) and head.of_last_rows:
                return head.finish(encoder.last_rows(step), step, "tokens")
            return head(encoder(step), step)
