"""A llama's layers as an encoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from fastqps.architectures.llama_layer import LlamaLayer, make_norm
from fastqps.architectures.rope import rotary_tables
from fastqps.architectures.weights import Weights
from fastqps.kernels.layers import Attention, Tables
from fastqps.kernels.torch_ops.attention import opening_of
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

    def keep_opening(self, ids: Sequence[int]) -> None:
        """Computes the keys and values of ``ids``, with which items can begin from then on."""
        kept: list[torch.Tensor] = []
        self._hidden(self._ops.step_of(ids), True, lambda qkv, a: kept.append(opening_of(qkv[: len(ids)], a)))
        self._attention = [replace(a, opening=opening) for a, opening in zip(self._attention, kept, strict=True)]

    def __call__(self, step: Step) -> torch.Tensor:
        return self._hidden(step, last=False)

    def last_rows(self, step: Step) -> torch.Tensor:
        """[items, hidden]: the last hidden state of each item's last token."""
        return self._hidden(step, last=True)

    def _hidden(
        self, step: Step, last: bool, seen: Callable[[torch.Tensor, Attention], None] | None = None
    ) -> torch.Tensor:
        """``seen`` is called with each layer's queries, keys and values."""
        ops, (first, *others) = self._ops, self._layers
        rows, step = self._embedding(step, None)
        x, normed = rows.tensor, first.attention_norm(rows.tensor, first.qkv)
        for layer, attention, after in zip(self._layers, self._attention, [*others, None], strict=True):
            qkv = layer.project(normed)
            if seen:
                seen(qkv, attention)
            attended = ops.attend(qkv, step, attention)
            if last and not after:
                x, attended = ops.last_rows(x, step), ops.last_rows(attended, step)
            x, h = layer.finish(x, attended)
            if after:
                x, normed = after.attention_norm.add(layer.down, h, x, after.qkv)
        return self._norm.add_post(layer.down, h, x, None).tensor
