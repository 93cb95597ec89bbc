"""BERT and families of its layout: one packed forward, with a norm after each residual."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from fastqps.architectures.distances import DistanceVectors, alibi_biases, distance_biases
from fastqps.architectures.rope import rotary_table
from fastqps.architectures.weights import Weights
from fastqps.kernels.layers import Attention, Tables
from fastqps.models.families.encoder import BertConfig
from fastqps.ops.fp8 import Weight, concatenate, joined, scaled, split
from fastqps.ops.interface import EncoderOps, Linear, Norm, Reader, Rows, Site, SiteKind
from fastqps.ops.step import Step

_FARTHEST = 128  # tokens, from which on biases are of one bucket


@dataclass(frozen=True)
class PositionTables:
    """Rotary angles, biases and vectors of distances, by which attention knows positions."""

    rotary: torch.Tensor | None
    bias: torch.Tensor | None
    vectors: DistanceVectors | None

    @classmethod
    def read(cls, weights: Weights, config: BertConfig, max_tokens: int, ops: EncoderOps) -> PositionTables:
        """``config``'s, for items of up to ``max_tokens``."""
        rotary = bias = None
        if config.rotary:
            rotary = ops.keep(rotary_table(config.rotary, config.hidden // config.heads, max_tokens))
        if config.relative_buckets:
            name = f"{config.tensors.relative_bias}.weight"
            table = weights(name, config.relative_buckets, config.heads)
            bias = ops.keep(distance_biases(table, max_tokens, _FARTHEST))
        if config.alibi:
            bias = ops.keep(alibi_biases(config.heads, max_tokens))
        how = config.disentangled
        return cls(rotary, bias, DistanceVectors(weights, config, how, max_tokens) if how else None)


class _Layer:
    def __init__(
        self, weights: Weights, number: int, config: BertConfig, tables: PositionTables, ops: EncoderOps
    ) -> None:
        names, layers, hidden, inner = config.tensors, config.layers, config.hidden, config.inner
        at, by = config.layer_names[number], {names.qkv[0]: config.query_scale}
        assert len(names.qkv) == 3 or config.query_scale is None, "the scale is of the query alone"
        relative = ops.relative(tables.vectors.of_layer(at)) if tables.vectors else None
        heads, self._ops = config.heads, ops
        self._attention = Attention(heads, heads, tables.rotary, bias=tables.bias, relative=relative)

        def linear(
            kind: SiteKind, parts: Sequence[str], outputs: int, inputs: int
        ) -> tuple[Weight, torch.Tensor | None, Site]:
            """Joins the product of ``parts`` that share the outputs."""
            each = outputs // len(parts)
            matrices = [scaled(weights.matrix(f"{at}{part}.weight", each, inputs), by.get(part)) for part in parts]
            biased = [part for part in parts if part not in names.unbiased]
            assert len(biased) in (0, len(parts)), "a product has a bias, or it has none"
            biases = [scaled(weights(f"{at}{part}.bias", each), by.get(part)) for part in biased]
            return concatenate(matrices), joined(biases) if biases else None, Site(kind, number, layers)

        def norm(name: str) -> Norm:
            return ops.norm(*_norm(weights, at + name, hidden, config), "layer")

        self.qkv = ops.linear(*linear("qkv", names.qkv, 3 * hidden, hidden))
        self.out, self.out_norm = ops.linear(*linear("out", [names.out], hidden, hidden)), norm(names.out_norm)
        if names.up_gate:
            both, bias, site = linear("up", names.up_gate, 2 * inner, hidden)
            biases = None if bias is None else (bias[inner:], bias[:inner])
            up, gate = split(both, (inner, inner))
            if names.gate_first:
                assert bias is None, "no family has a bias here"
                up, gate = gate, up
            self.up = ops.gated(gate, up, biases, config.activation, site)
        else:
            up, bias, site = linear("up", [names.up], inner, hidden)
            self.up = ops.activated(up, bias, config.activation, site)
        self.down = ops.linear(*linear("down", [names.down], hidden, inner))
        self.down_norm = norm(names.down_norm)

    def __call__(self, x: Rows, step: Step, reader: Reader | None) -> Rows:
        ops = self._ops
        attended = ops.attend(self.qkv(x), step, self._attention)
        x = self.out_norm.add_post(self.out, ops.rows(attended, self.out), x.tensor, self.up)
        return self.down_norm.add_post(self.down, self.up(x, self.down), x.tensor, reader)


def _norm(weights: Weights, name: str, width: int, config: BertConfig) -> tuple[torch.Tensor, torch.Tensor, float]:
    return weights(f"{name}.weight", width), weights(f"{name}.bias", width), config.eps


def _projection(weights: Weights, config: BertConfig, ops: EncoderOps) -> Linear:
    name, width = config.tensors.embedding_projection, config.embedding
    assert width is not None
    weight = weights.matrix(f"{name}.weight", config.hidden, width)
    return ops.linear(weight, weights(f"{name}.bias", config.hidden), Site("qkv", 0, config.layers))


class Bert:
    """The encoder: ``Step`` → last hidden states [tokens, hidden]."""

    def __init__(self, weights: Weights, config: BertConfig, max_tokens: int, ops: EncoderOps) -> None:
        self._ops, self.hidden, names = ops, config.hidden, config.tensors
        width = config.embedding or self.hidden
        words = weights(f"{names.words}.weight", config.vocab, width)
        positions = None
        if names.positions:
            positions = weights(f"{names.positions}.weight", config.positions, width)
        types = weights(f"{names.types}.weight", config.types, width) if config.types else None
        norm = _norm(weights, names.embedding_norm, width, config)
        self._embedding = ops.embedding(Tables(words, positions, types, *norm, config.position_offset))
        self._projection = _projection(weights, config, ops) if config.embedding else None
        tables = PositionTables.read(weights, config, max_tokens, ops)
        # Layers that share their tensors are one, as precise as the first or the last layer if that is among them.
        numbers = {name: i for i, name in enumerate(config.layer_names)}
        numbers |= {config.layer_names[0]: 0}
        made = {name: _Layer(weights, number, config, tables, ops) for name, number in numbers.items()}
        self._layers = [made[name] for name in config.layer_names]
        at = names.layer.partition("{")[0]
        weights.check_unread(at, len({name.removeprefix(at).partition(".")[0] for name in made}))
        self._readers = [*(layer.qkv for layer in self._layers), None]

    def __call__(self, step: Step) -> torch.Tensor:
        first = self._layers[0].qkv
        x, step = self._embedding(step, self._projection or first)
        if self._projection:
            rows = self._projection(x)
            x = replace(self._ops.rows(rows, first), values=rows)
        for layer, reader in zip(self._layers, self._readers[1:], strict=True):
            x = layer(x, step, reader)
        return x.tensor
