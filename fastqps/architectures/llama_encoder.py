"""A llama's layers as an encoder."""

from __future__ import annotations

import torch

from fastqps.architectures.llama_layer import LlamaLayer, make_norm
from fastqps.architectures.rope import rotary_tables
from fastqps.architectures.weights import Weights
from fastqps.kernels.layers import Tables
from fastqps.models.families.llama_encoder import LlamaEncoderConfig
from fastqps.ops.interface import EncoderOps
from fastqps.ops.step import Step


class LlamaEncoder:
    """The encoder: ``Step`` → last hidden states [tokens, hidden], for items of up to ``max_tokens``."""

    def __init__(self, weights: Weights, config: LlamaEncoderConfig, max_tokens: int, ops: EncoderOps) -> None:
        self.hidden, self._ops, names = config.hidden, ops, config.tensors
        words = weights(f"{names.words}.weight", config.vocab, config.hidden)
        if config.embedding_scale != 1:
            words = words * config.embedding_scale
        self._embedding = ops.embedding(Tables(words))
        self._norm = make_norm(weights, names.norm, config, ops)
        tables = rotary_tables(config.ropes, config.head_dim, max_tokens, ops.keep)
        self._layers = [LlamaLayer(weights, i, config, ops) for i in range(config.layers)]
        of_layers = zip(self._layers, tables, config.windows, strict=True)
        self._attention = [layer.attention(rotary, window, config.causal) for layer, rotary, window in of_layers]
        weights.check_unread(names.layers, config.layers)

    def __call__(self, step: Step) -> torch.Tensor:
        first, *others = self._layers
        rows, step = self._embedding(step, None)
        x, normed = rows.tensor, first.attention_norm(rows.tensor, first.qkv)
        for layer, attention, after in zip(self._layers, self._attention, [*others, None], strict=True):
            x, h = layer.finish(x, self._ops.attend(layer.project(normed), step, attention))
            if after:
                x, normed = after.attention_norm.add(layer.down, h, x, after.qkv)
        return self._norm.add_post(layer.down, h, x, None).tensor
