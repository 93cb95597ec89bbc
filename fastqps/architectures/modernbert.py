"""ModernBERT: norm before each block, rotary positions, gated activations, attention alternately local and global."""

from __future__ import annotations

import torch

from fastqps.architectures.rope import rotary_table
from fastqps.architectures.weights import Weights
from fastqps.kernels.layers import Attention, Tables
from fastqps.models.families.encoder import ModernBertConfig
from fastqps.models.families.rope import Rope
from fastqps.ops.fp8 import split
from fastqps.ops.interface import EncoderOps, Linear, Norm, Rows, Site, SiteKind
from fastqps.ops.step import Step


class _Layer:
    def __init__(
        self,
        weights: Weights,
        number: int,
        config: ModernBertConfig,
        rotary: torch.Tensor,
        window: int,
        ops: EncoderOps,
    ) -> None:
        hidden, inner, at = config.hidden, config.inner, f"layers.{number}."
        self._attention, self._ops = Attention(config.heads, config.heads, rotary, window=window), ops

        def site(kind: SiteKind) -> Site:
            return Site(kind, number, config.layers)

        def linear(kind: SiteKind, name: str, outputs: int, inputs: int, biased: bool) -> Linear:
            bias = weights(f"{at}{name}.bias", outputs) if biased else None
            return ops.linear(weights.matrix(f"{at}{name}.weight", outputs, inputs), bias, site(kind))

        if number:  # the embedding has normalised the first one's
            self.attention_norm = make_norm(weights, f"{at}attn_norm", config, ops)
        self.qkv = linear("qkv", "attn.Wqkv", 3 * hidden, hidden, config.attention_bias)
        self._out = linear("out", "attn.Wo", hidden, hidden, config.attention_bias)
        self._mlp_norm = make_norm(weights, f"{at}mlp_norm", config, ops)
        gate, up = split(weights.matrix(f"{at}mlp.Wi.weight", 2 * inner, hidden), (inner, inner))
        bias = weights(f"{at}mlp.Wi.bias", 2 * inner) if config.mlp_bias else None
        biases = None if bias is None else (bias[:inner], bias[inner:])
        self._up = ops.gated(gate, up, biases, config.activation, site("up"))
        self.down = linear("down", "mlp.Wo", hidden, inner, config.mlp_bias)

    def __call__(self, x: torch.Tensor, normed: Rows, step: Step) -> tuple[torch.Tensor, Rows]:
        """x [tokens, hidden] and its norm → a new x, and the rows of which ``down`` is still to be added to it."""
        ops = self._ops
        attended = ops.attend(self.qkv(normed), step, self._attention)
        x, normed = self._mlp_norm.add(self._out, ops.rows(attended, self._out), x, self._up)
        return x, self._up(normed, self.down)


def make_norm(weights: Weights, name: str, config: ModernBertConfig, ops: EncoderOps) -> Norm:
    """The norm of that name."""
    return ops.norm(*norm_of(weights, name, config), "layer")


def norm_of(weights: Weights, name: str, config: ModernBertConfig) -> tuple[torch.Tensor, torch.Tensor | None, float]:
    """Weight, bias and epsilon of the norm of that name."""
    bias = weights(f"{name}.bias", config.hidden) if config.norm_bias else None
    return weights(f"{name}.weight", config.hidden), bias, config.eps


class ModernBert:
    """The encoder: ``Step`` → last hidden states [tokens, hidden], for items of up to ``max_tokens``."""

    def __init__(self, weights: Weights, config: ModernBertConfig, max_tokens: int, ops: EncoderOps) -> None:
        self.hidden = config.hidden
        words = weights("embeddings.tok_embeddings.weight", config.vocab, self.hidden)
        self._embedding = ops.embedding(Tables(words, None, None, *norm_of(weights, "embeddings.norm", config)))
        self._final = make_norm(weights, "final_norm", config, ops)
        kinds, half = config.kinds, config.half_window
        ropes = {kind: Rope(theta=config.thetas[kind]) for kind in sorted(set(kinds))}
        size = self.hidden // config.heads
        tables = {kind: ops.keep(rotary_table(rope, size, max_tokens)) for kind, rope in ropes.items()}
        self._layers = [
            _Layer(weights, i, config, tables[kind], half if kind == "sliding_attention" else 0, ops)
            for i, kind in enumerate(kinds)
        ]
        weights.check_unread("layers.", config.layers)

    def __call__(self, step: Step) -> torch.Tensor:
        first, *others = self._layers
        normed, step = self._embedding(step, first.qkv)
        x = normed.tensor
        for layer, after in zip(self._layers, [*others, None], strict=True):
            x, h = layer(x, normed, step)
            if after:
                x, normed = after.attention_norm.add(layer.down, h, x, after.qkv)
        return self._final.add_post(layer.down, h, x, None).tensor
