"""BERT, DistilBERT and RoBERTa: one packed forward (norm after each residual), three ways of naming its tensors."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fastqps.architectures.unread import check_unread
from fastqps.architectures.weights import Weights
from fastqps.models.encoder_config import BertConfig
from fastqps.ops.fp8 import Weight, concatenate, joined
from fastqps.ops.interface import EncoderOps, Norm, Reader, Rows, Site, SiteKind
from fastqps.ops.step import Step


@dataclass(frozen=True)
class Names:
    """Where a family keeps its tensors; ``layer`` is a format of the layer's number."""

    prefix: str
    layer: str
    query: str
    key: str
    value: str
    out: str
    out_norm: str
    up: str
    down: str
    down_norm: str


_BERT = Names(
    prefix="bert.",
    layer="encoder.layer.{}.",
    query="attention.self.query",
    key="attention.self.key",
    value="attention.self.value",
    out="attention.output.dense",
    out_norm="attention.output.LayerNorm",
    up="intermediate.dense",
    down="output.dense",
    down_norm="output.LayerNorm",
)
_DISTILBERT = Names(
    prefix="distilbert.",
    layer="transformer.layer.{}.",
    query="attention.q_lin",
    key="attention.k_lin",
    value="attention.v_lin",
    out="attention.out_lin",
    out_norm="sa_layer_norm",
    up="ffn.lin1",
    down="ffn.lin2",
    down_norm="output_layer_norm",
)
NAMES = {"bert": _BERT, "distilbert": _DISTILBERT, "roberta": Names(**{**_BERT.__dict__, "prefix": "roberta."})}


class _Layer:
    def __init__(self, weights: Weights, number: int, names: Names, config: BertConfig, ops: EncoderOps) -> None:
        at, layers, hidden, inner = names.layer.format(number), config.layers, config.hidden, config.inner
        self.heads = config.heads
        self._ops = ops

        def linear(kind: SiteKind, parts: list[str], outputs: int, inputs: int) -> tuple[Weight, torch.Tensor, Site]:
            weight = concatenate([weights.matrix(f"{at}{part}.weight", outputs, inputs) for part in parts])
            return (
                weight,
                joined([weights(f"{at}{part}.bias", outputs) for part in parts]),
                Site(kind, number, layers),
            )

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

    def __init__(self, weights: Weights, family: str, config: BertConfig, ops: EncoderOps) -> None:
        names = NAMES[family]
        self.hidden = config.hidden
        at = "embeddings."
        words = weights(f"{at}word_embeddings.weight", config.vocab, self.hidden)
        places = weights(f"{at}position_embeddings.weight", config.positions, self.hidden)
        kinds: torch.Tensor | None = None
        if config.types:
            kinds = weights(f"{at}token_type_embeddings.weight", config.types, self.hidden)
        norm = _norm(weights, f"{at}LayerNorm", config)
        self._embedding = ops.embedding(words, places, kinds, norm, config.position_offset)
        self._layers = [_Layer(weights, i, names, config, ops) for i in range(config.layers)]
        check_unread(weights, names.layer.partition("{")[0], config.layers)
        self._readers = [*(layer.qkv for layer in self._layers), None]

    def __call__(self, step: Step) -> torch.Tensor:
        x, step = self._embedding(step, self._readers[0])
        for layer, reader in zip(self._layers, self._readers[1:], strict=True):
            x = layer(x, step, reader)
        return x.tensor
