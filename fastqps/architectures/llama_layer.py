"""One layer of a llama, as decoders and encoders of that layout have it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch

from fastqps.architectures.block_norms import NormedLinear, SumNorm
from fastqps.architectures.rope import turned_order
from fastqps.architectures.weights import Weights
from fastqps.kernels.layers import Attention
from fastqps.models.families.decoder import DecoderConfig
from fastqps.models.families.llama_encoder import LlamaEncoderConfig
from fastqps.ops.fp8 import W, Weight, by_columns, by_part, concatenate, joined, scaled, split, transposed
from fastqps.ops.interface import Activated, BlockNorm, Linear, Norm, Ops, Rows, Site, SiteKind


class LlamaLayer:
    """The layer ``number``: products and norms. Attention is between ``project`` and ``finish``, ``down`` behind."""

    def __init__(self, weights: Weights, number: int, config: DecoderConfig | LlamaEncoderConfig, ops: Ops) -> None:
        self._weights, self._number, self._config, self._ops = weights, number, config, ops
        self._at = f"{config.tensors.layers}{number}."
        c, t, queries, keys = config, config.tensors, config.heads * config.head_dim, config.kv_heads * config.head_dim
        self._order = turned_order(config.ropes[number], config.head_dim)
        self._head_norms = self._head_norm("q_norm", c.query_scale), self._head_norm("k_norm", None)
        # Attention's scale is in the queries, or in the norm that they pass through.
        scales = None if c.qk_norm else c.query_scale, None, None
        before = number - c.normed_sums
        self.attention_norm = self._block_norm(t.attention_norm if before >= 0 else "", before)
        self.qkv = self._linear("qkv", t.qkv, (queries, keys, keys), c.hidden, c.qkv_bias, scales)
        widths = {"q_norm": (0, queries), "k_norm": (queries, keys)} if c.wide_qk_norm else {}
        self._wide_norms = [(first, self._wide_norm(name, width)) for name, (first, width) in widths.items()]
        self._out = self._post(self._linear("out", (t.out,), (c.hidden,), queries, c.out_bias), t.attention_post_norm)
        self._mlp_norm = self._block_norm(t.mlp_norm, number)
        self._up = self._activated()
        self.down = self._post(self._linear("down", (t.down,), (c.hidden,), c.inner, c.mlp_bias), t.mlp_post_norm)

    def attention(self, rotary: torch.Tensor | None, window: int = 0, causal: bool = True) -> Attention:
        """The layer's attention."""
        c, eps = self._config, self._config.eps if self._config.qk_norm else 0.0
        return Attention(
            c.heads, c.kv_heads, rotary, *self._head_norms, eps, window=window, causal=causal, cap=c.score_cap
        )

    def project(self, normed: Rows) -> torch.Tensor:
        """Queries, keys and values of rows that ``qkv`` reads."""
        qkv = self.qkv(normed)
        for first, weight in self._wide_norms:
            self._ops.norm_columns(qkv, first, weight, self._config.eps)
        return qkv

    def finish(self, x: torch.Tensor, attended: torch.Tensor) -> tuple[torch.Tensor, Rows]:
        """x [rows, hidden] and its attention → a new x, and the rows of which ``down`` is still to be added to it."""
        attended_rows = self._ops.rows(attended, self._out)
        if self._config.parallel:
            h = self._up(self._mlp_norm(x, self._up), self.down)
            return self._out.add_residual(attended_rows, x), h
        x, normed = self._mlp_norm.add(self._out, attended_rows, x, self._up)
        return x, self._up(normed, self.down)

    def _block_norm(self, name: str, number: int) -> BlockNorm:
        if not name:
            return SumNorm(self._ops)
        norm = self._norm(name, number)
        return SumNorm(self._ops, norm) if self._config.normed_sums else norm

    def _post(self, linear: Linear, norm: str) -> Linear:
        return NormedLinear(linear, self._norm(norm, self._number), self._ops) if norm else linear

    def _norm(self, name: str, number: int) -> Norm:
        return make_norm(self._weights, f"{self._config.tensors.layers}{number}.{name}", self._config, self._ops)

    def _linear(
        self,
        kind: SiteKind,
        names: tuple[str, ...],
        outputs: Sequence[int],
        inputs: int,
        bias: bool,
        scales: Sequence[float | None] = (None,),
    ) -> Linear:
        """One product of all ``outputs``, which read the same input; ``scales`` are theirs."""
        matrices = self._turned(self._parts(partial(self._matrix, inputs=inputs), names, outputs))
        biases = self._turned(self._parts(self._bias, names, outputs)) if bias else []
        matrix = concatenate([scaled(part, by) for part, by in zip(matrices, scales, strict=True)])
        biases = [scaled(part, by) for part, by in zip(biases, scales, strict=False)]
        return self._ops.linear(matrix, joined(biases) if biases else None, self._site(kind))

    def _activated(self) -> Activated:
        c, site = self._config, self._site("up")
        names, outputs = c.tensors.up, (c.inner,) * (2 if c.gated else 1)
        matrices = self._parts(partial(self._matrix, inputs=c.hidden), names, outputs)
        biases = self._parts(self._bias, names, outputs) if c.mlp_bias else None
        if not c.gated:
            return self._ops.activated(matrices[0], biases[0] if biases else None, c.activation, site)
        gate, up = matrices
        return self._ops.gated(gate, up, (biases[0], biases[1]) if biases else None, c.activation, site)

    def _parts(self, read: Callable[[str, int], W], names: tuple[str, ...], outputs: Sequence[int]) -> Sequence[W]:
        """What ``read`` gives of products that lie in a tensor each, or all in one."""
        if len(names) == len(outputs):
            return [read(name, n) for name, n in zip(names, outputs, strict=True)]
        whole = read(names[0], sum(outputs))
        return split(by_part(whole, self._config.heads) if self._config.tensors.by_head else whole, outputs)

    def _turned(self, parts: Sequence[W]) -> Sequence[W]:
        """The same, the columns of queries and keys in the order in which positions turn them."""
        if len(parts) < 3 or self._order is None:
            return parts
        queries, keys, values = parts
        return [by_columns(queries, self._order), by_columns(keys, self._order), values]

    def _matrix(self, name: str, outputs: int, inputs: int) -> Weight:
        if self._config.tensors.transposed:
            return transposed(self._weights(f"{self._at}{name}.weight", inputs, outputs))
        return self._weights.matrix(f"{self._at}{name}.weight", outputs, inputs)

    def _bias(self, name: str, outputs: int) -> torch.Tensor:
        return self._weights(f"{self._at}{name}.bias", outputs)

    def _head_norm(self, name: str, scale: float | None) -> torch.Tensor | None:
        if not self._config.qk_norm:
            return None
        weight = self._weights(f"{self._at}self_attn.{name}.weight", self._config.head_dim)
        weight = weight if self._order is None else by_columns(weight, self._order)
        return self._ops.keep(scaled(weight + self._config.norm_offset, scale))

    def _wide_norm(self, name: str, width: int) -> torch.Tensor:
        return self._ops.keep(self._weights(f"{self._at}self_attn.{name}.weight", width))

    def _site(self, kind: SiteKind) -> Site:
        return Site(kind, self._number, self._config.layers)


def make_norm(
    weights: Weights, name: str, config: DecoderConfig | LlamaEncoderConfig, ops: Ops, scale: float | None = None
) -> Norm:
    """The norm of that name, its results multiplied by ``scale``."""
    weight = scaled(weights(f"{name}.weight", config.hidden) + config.norm_offset, scale)
    bias = scaled(weights(f"{name}.bias", config.hidden), scale) if config.norm_bias else None
    return ops.norm(weight, bias, config.eps, config.norm_kind)
