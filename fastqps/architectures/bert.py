"""BERT and families of its layout: one packed forward, with a norm after each residual."""

from __future__ import annotations

import torch

from fastqps.architectures.unread import check_unread
from fastqps.architectures.weights import Weights
from fastqps.models.families.encoder import BertConfig
from fastqps.ops.fp8 import Weight, concatenate, joined, scaled
from fastqps.ops.interface import EncoderOps, Norm, Reader, Rows, Site, SiteKind
from fastqps.ops.step import Step


class _Layer:
    def __init__(self, weights: Weights, number: int, config: BertConfig, ops: EncoderOps) -> None:
        names, layers, hidden, inner = config.tensors, config.layers, config.hidden, config.inner
        at, query_scale = names.layer.format(number), config.query_scale
        self.heads = config.heads
        self._ops = ops

        def linear(kind: SiteKind, parts: list[str], outputs: int, inputs: int) -> tuple[Weight, torch.Tensor, Site]:
            by = {names.query: query_scale}
            matrices = [scaled(weights.matrix(f"{at}{part}.weight", outputs, inputs), by.get(part)) for part in parts]
            biases = [scaled(weights(f"{at}{part}.bias", outputs), by.get(part)) for part in parts]
            return concatenate(matrices), joined(biases), Site(kind, number, layers)

        def norm(name: str) -> Norm:
            return ops.norm(*_norm(weights, at + name, config), "layer")

        self.qkv = ops.linear(*linear("qkv", [names.query, names.key, names.value], hidden, hidden))
        self.out, self.out_norm = ops.linear(*linear("out", [names.out], hidden, hidden)), norm(names.out_norm)
        weight, bias, site = linear("up", [names.up], inner, hidden)
        self.up = ops.activated(weight, bias, config.activation, site)
        self.down = ops.linear(*linear("down", [names.down], hidden, inner))
        self.down_norm = norm(names.down_norm)

    def __call__(self, x: Rows, step: Step, into: Reader | None) -> Rows:
        ops = self._ops
        attended = ops.rows(ops.attend(self.qkv(x), step, self.heads), self.out)
        x = self.out_norm.add_post(self.out, attended, x.tensor, self.up)
        return self.down_norm.add_post(self.down, self.up(x, self.down), x.tensor, into)


def _norm(weights: Weights, name: str, config: BertConfig) -> tuple[torch.Tensor, torch.Tensor, float]:
    return weights(f"{name}.weight", config.hidden), weights(f"{name}.bias", config.hidden), config.eps


class Bert:
    """The encoder: ``Step`` → last hidden states [tokens, hidden]."""

    def __init__(self, weights: Weights, config: BertConfig, max_tokens: int, ops: EncoderOps) -> None:
        del max_tokens  # its table of positions bounds an input
        self.hidden, names = config.hidden, config.tensors
        words = weights(f"{names.words}.weight", config.vocab, self.hidden)
        positions = weights(f"{names.positions}.weight", config.positions, self.hidden)
        types = weights(f"{names.types}.weight", config.types, self.hidden) if config.types else None
        norm = _norm(weights, names.embedding_norm, config)
        self._embedding = ops.embedding(words, positions, types, norm, config.position_offset)
        self._layers = [_Layer(weights, i, config, ops) for i in range(config.layers)]
        check_unread(weights, config.tensors.layer.partition("{")[0], config.layers)
        self._readers = [*(layer.qkv for layer in self._layers), None]

    def __call__(self, step: Step) -> torch.Tensor:
        x, step = self._embedding(step, self._readers[0])
        for layer, reader in zip(self._layers, self._readers[1:], strict=True):
            x = layer(x, step, reader)
        return x.tensor
