"""A decoder's layers as an encoder: Llama and families of its layout, and Gemma 3, which normalises blocks twice."""

from __future__ import annotations

import torch

from fastqps.architectures.llama_parts import LlamaParts, rms_norm
from fastqps.architectures.rope import rotary_table
from fastqps.architectures.weights import Weights
from fastqps.kernels.layers import Tables
from fastqps.models.families.llama_encoder import LlamaEncoderConfig
from fastqps.ops.interface import EncoderOps, Linear, Norm, Rows
from fastqps.ops.step import Step


class _Normalised:
    """A product and the norm behind it, as one product: what the block gives is normalised before it is added."""

    def __init__(self, linear: Linear, norm: Norm, ops: EncoderOps) -> None:
        self._linear, self._norm, self._ops, self.fp8 = linear, norm, ops, linear.fp8

    def __call__(self, x: Rows) -> torch.Tensor:
        return self._norm(self._linear(x), None).tensor

    def add_residual(self, x: Rows, residual: torch.Tensor) -> torch.Tensor:
        return self._ops.add(residual, self(x))


class _Layer:
    def __init__(
        self, weights: Weights, number: int, config: LlamaEncoderConfig, rotary: torch.Tensor, ops: EncoderOps
    ) -> None:
        c = config
        parts = LlamaParts(weights, number, c, ops, c.activation, c.norm_offset)
        self._ops, self._attention = ops, parts.attention(rotary, c.windows[number], c.causal)
        self.attention_norm, self.qkv, self._up = parts.attention_norm, parts.qkv, parts.up
        self._mlp_norm = parts.norm("pre_feedforward_layernorm" if c.block_norms else "post_attention_layernorm")
        self._out: Linear = parts.out
        self.down: Linear = parts.down
        if c.block_norms:
            self._out = _Normalised(parts.out, parts.norm("post_attention_layernorm"), ops)
            self.down = _Normalised(parts.down, parts.norm("post_feedforward_layernorm"), ops)

    def __call__(self, x: torch.Tensor, normed: Rows, step: Step) -> tuple[torch.Tensor, Rows]:
        """x [tokens, hidden] and its norm → a new x, and the rows of which ``down`` is still to be added to it."""
        ops = self._ops
        attended = ops.attend(self.qkv(normed), step, self._attention)
        x, normed = self._mlp_norm.add(self._out, ops.rows(attended, self._out), x, self._up)
        return x, self._up(normed, self.down)


class LlamaEncoder:
    """The encoder: ``Step`` → last hidden states [tokens, hidden], for items of up to ``max_tokens``."""

    def __init__(self, weights: Weights, config: LlamaEncoderConfig, max_tokens: int, ops: EncoderOps) -> None:
        self.hidden = config.hidden
        words = weights("embed_tokens.weight", config.vocab, config.hidden)
        if config.embedding_scale != 1:
            words = words * config.embedding_scale
        self._embedding = ops.embedding(Tables(words))
        self._norm = rms_norm(weights, "norm.weight", config, ops, config.norm_offset)
        tables = {rope: ops.keep(rotary_table(rope, config.head_dim, max_tokens)) for rope in config.ropes}
        self._layers = [_Layer(weights, i, config, tables[rope], ops) for i, rope in enumerate(config.ropes)]
        weights.check_unread("layers.", config.layers)

    def __call__(self, step: Step) -> torch.Tensor:
        first, *others = self._layers
        rows, step = self._embedding(step, None)
        x, normed = rows.tensor, first.attention_norm(rows.tensor, first.qkv)
        for layer, after in zip(self._layers, [*others, None], strict=True):
            x, h = layer(x, normed, step)
            if after:
                x, normed = after.attention_norm.add(layer.down, h, x, after.qkv)
        return self._norm.add_post(layer.down, h, x, None).tensor
