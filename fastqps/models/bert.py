"""BERT, DistilBERT and RoBERTa: one packed forward (norm after each residual), three ways of naming its tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from fastqps.models.fp8 import Weight, concatenate, joined
from fastqps.models.ops import EncoderOps, Norm, Reader, Rows, Site, SiteKind
from fastqps.models.step import Step
from fastqps.models.weights import Weights


@dataclass(frozen=True)
class Names:
    """Where a family keeps its tensors and sizes; ``layer`` is a format of the layer's number."""

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
    hidden: str = "hidden_size"
    inner: str = "intermediate_size"
    layers: str = "num_hidden_layers"
    heads: str = "num_attention_heads"
    activation: str = "hidden_act"
    types: bool = True


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
    hidden="dim",
    inner="hidden_dim",
    layers="n_layers",
    heads="n_heads",
    activation="activation",
    types=False,
)
NAMES = {"bert": _BERT, "distilbert": _DISTILBERT, "roberta": Names(**{**_BERT.__dict__, "prefix": "roberta."})}


class _Layer:
    def __init__(self, weights: Weights, number: int, names: Names, config: dict[str, Any], ops: EncoderOps) -> None:
        at, layers = names.layer.format(number), config[names.layers]
        hidden, inner = config[names.hidden], config[names.inner]
        self.heads: int = config[names.heads]
        self._ops = ops

        def linear(kind: SiteKind, parts: list[str], outputs: int, inputs: int) -> tuple[Weight, torch.Tensor, Site]:
            weight = concatenate([weights.matrix(f"{at}{part}.weight", outputs, inputs) for part in parts])
            return (
                weight,
                joined([weights(f"{at}{part}.bias", outputs) for part in parts]),
                Site(kind, number, layers),
            )

        def norm(name: str) -> Norm:
            return ops.norm(*_norm(weights, at + name, hidden, config), "layer")

        self.qkv = ops.linear(*linear("qkv", [names.query, names.key, names.value], hidden, hidden))
        self.out, self.out_norm = ops.linear(*linear("out", [names.out], hidden, hidden)), norm(names.out_norm)
        weight, bias, site = linear("up", [names.up], inner, hidden)
        self.up = ops.activated(weight, bias, config.get(names.activation, "gelu"), site)
        self.down = ops.linear(*linear("down", [names.down], hidden, inner))
        self.down_norm = norm(names.down_norm)

    def __call__(self, x: Rows, step: Step, into: Reader | None) -> Rows:
        ops = self._ops
        attended = ops.rows(ops.attend(self.qkv(x), step, self.heads), self.out)
        x = self.out_norm.add_post(self.out, attended, x.tensor, self.up)
        return self.down_norm.add_post(self.down, self.up(x, self.down), x.tensor, into)


def _norm(weights: Weights, name: str, hidden: int, config: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor, float]:
    eps = config.get("layer_norm_eps", 1e-12)
    return weights(f"{name}.weight", hidden), weights(f"{name}.bias", hidden), eps


class Bert:
    """The encoder: ``Step`` → last hidden states [tokens, hidden]."""

    def __init__(
        self, weights: Weights, family: str, config: dict[str, Any], position_offset: int, ops: EncoderOps
    ) -> None:
        names = NAMES[family]
        self.hidden: int = config[names.hidden]
        at = "embeddings."
        words = weights(f"{at}word_embeddings.weight", config["vocab_size"], self.hidden)
        places = weights(f"{at}position_embeddings.weight", config["max_position_embeddings"], self.hidden)
        kinds: torch.Tensor | None = None
        if names.types:
            kinds = weights(f"{at}token_type_embeddings.weight", config.get("type_vocab_size", 2), self.hidden)
        norm = _norm(weights, f"{at}LayerNorm", self.hidden, config)
        self._embedding = ops.embedding(words, places, kinds, norm, position_offset)
        self._layers = [_Layer(weights, i, names, config, ops) for i in range(config[names.layers])]
        self._readers = [*(layer.qkv for layer in self._layers), None]

    def __call__(self, step: Step) -> torch.Tensor:
        x, step = self._embedding(step, self._readers[0])
        for layer, reader in zip(self._layers, self._readers[1:], strict=True):
            x = layer(x, step, reader)
        return x.tensor
