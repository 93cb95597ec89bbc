"""T5's encoder: root mean square norms before each block, no biases but one of attention by the distance of tokens."""

from __future__ import annotations

import torch

from fastqps.architectures.distances import distance_biases
from fastqps.architectures.weights import Weights
from fastqps.kernels.layers import Attention, Tables
from fastqps.models.families.encoder import T5Config
from fastqps.ops.fp8 import Weight, concatenate, scaled
from fastqps.ops.interface import EncoderOps, Norm, Rows, Site, SiteKind
from fastqps.ops.step import Step

_ATTENTION, _PRODUCTS = "layer.0.SelfAttention", "layer.1.DenseReluDense"


class _Layer:
    def __init__(self, weights: Weights, number: int, config: T5Config, bias: torch.Tensor, ops: EncoderOps) -> None:
        hidden, inner, at = config.hidden, config.inner, f"encoder.block.{number}."
        width = config.heads * config.head_size
        self._attention, self._ops = Attention(config.heads, config.heads, bias=bias), ops

        def site(kind: SiteKind) -> Site:
            return Site(kind, number, config.layers)

        def matrix(name: str, outputs: int, inputs: int) -> Weight:
            return weights.matrix(f"{at}{name}.weight", outputs, inputs)

        def norm(name: str) -> Norm:
            return ops.norm(weights(f"{at}{name}.weight", hidden), None, config.eps, "rms")

        query, key, value = (matrix(f"{_ATTENTION}.{name}", width, hidden) for name in "qkv")
        query = scaled(query, config.head_size**0.5)  # scores are not scaled, and ``attend`` scales them
        self.attention_norm = norm("layer.0.layer_norm")
        self.qkv = ops.linear(concatenate([query, key, value]), None, site("qkv"))
        self._out = ops.linear(matrix(f"{_ATTENTION}.o", hidden, width), None, site("out"))
        self._norm = norm("layer.1.layer_norm")
        if config.gated:
            gate, up = (matrix(f"{_PRODUCTS}.{name}", inner, hidden) for name in ("wi_0", "wi_1"))
            self._up = ops.gated(gate, up, None, config.activation, site("up"))
        else:
            self._up = ops.activated(matrix(f"{_PRODUCTS}.wi", inner, hidden), None, config.activation, site("up"))
        self.down = ops.linear(matrix(f"{_PRODUCTS}.wo", hidden, inner), None, site("down"))

    def __call__(self, x: torch.Tensor, normed: Rows, step: Step) -> tuple[torch.Tensor, Rows]:
        """x [tokens, hidden] and its norm → a new x, and the rows of which ``down`` is still to be added to it."""
        ops = self._ops
        attended = ops.attend(self.qkv(normed), step, self._attention)
        x, normed = self._norm.add(self._out, ops.rows(attended, self._out), x, self._up)
        return x, self._up(normed, self.down)


class T5:
    """The encoder: ``Step`` → last hidden states [tokens, hidden], for items of up to ``max_tokens``."""

    def __init__(self, weights: Weights, config: T5Config, max_tokens: int, ops: EncoderOps) -> None:
        self.hidden = config.hidden
        encoder_table = "encoder.embed_tokens.weight"  # to the decoder's; files have one of both, or both
        name = encoder_table if weights.get("shared.weight") is None else "shared.weight"
        words = weights(name, config.vocab, self.hidden)
        self._embedding = ops.embedding(Tables(words))
        table = weights(f"encoder.block.0.{_ATTENTION}.relative_attention_bias.weight", config.buckets, config.heads)
        bias = ops.keep(distance_biases(table, max_tokens, config.farthest))
        self._layers = [_Layer(weights, i, config, bias, ops) for i in range(config.layers)]
        self._final = ops.norm(weights("encoder.final_layer_norm.weight", self.hidden), None, config.eps, "rms")
        weights.check_unread("encoder.block.", config.layers)

    def __call__(self, step: Step) -> torch.Tensor:
        first, *others = self._layers
        rows, step = self._embedding(step, None)
        x = rows.tensor
        normed = first.attention_norm(x, first.qkv)
        for layer, after in zip(self._layers, [*others, None], strict=True):
            x, h = layer(x, normed, step)
            if after:
                x, normed = after.attention_norm.add(layer.down, h, x, after.qkv)
        return self._final.add_post(layer.down, h, x, None).tensor
