"""BERT, DistilBERT and RoBERTa: one packed forward (norm after each residual), three ways of naming its tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from fastqps.models.attention import attend
from fastqps.models.layers import Embedding, Linear, Norm, check_activation
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
    def __init__(self, weights: Weights, at: str, names: Names, config: dict[str, Any], dtype: torch.dtype) -> None:
        hidden, inner = config[names.hidden], config[names.inner]
        eps = config.get("layer_norm_eps", 1e-12)
        self.heads: int = config[names.heads]
        self.activation = check_activation(config.get(names.activation, "gelu"))
        parts = [at + part for part in (names.query, names.key, names.value)]
        self.qkv = Linear(
            torch.cat([weights(f"{part}.weight", hidden, hidden) for part in parts]),
            torch.cat([weights(f"{part}.bias", hidden) for part in parts]),
            dtype,
        )

        def linear(name: str, outputs: int, inputs: int) -> Linear:
            return Linear(weights(f"{at}{name}.weight", outputs, inputs), weights(f"{at}{name}.bias", outputs), dtype)

        def norm(name: str) -> Norm:
            return Norm(weights(f"{at}{name}.weight", hidden), weights(f"{at}{name}.bias", hidden), eps)

        self.out, self.out_norm = linear(names.out, hidden, hidden), norm(names.out_norm)
        self.up, self.down = linear(names.up, inner, hidden), linear(names.down, hidden, inner)
        self.down_norm = norm(names.down_norm)

    def __call__(self, x: torch.Tensor, step: Step) -> torch.Tensor:
        x = self.out_norm(self.out.plus(attend(self.qkv(x), step, self.heads), x), in_place=True)
        return self.down_norm(self.down.plus(self.up(x, self.activation), x), in_place=True)


class Bert:
    """The encoder: ``Step`` → last hidden states [tokens, hidden]."""

    def __init__(self, weights: Weights, family: str, config: dict[str, Any], dtype: torch.dtype) -> None:
        names = NAMES[family]
        self.hidden: int = config[names.hidden]
        at = "embeddings."
        words = weights(f"{at}word_embeddings.weight", config["vocab_size"], self.hidden)
        places = weights(f"{at}position_embeddings.weight", config["max_position_embeddings"], self.hidden)
        kinds: torch.Tensor | None = None
        if names.types:
            kinds = weights(f"{at}token_type_embeddings.weight", config.get("type_vocab_size", 2), self.hidden)
        norm, eps = f"{at}LayerNorm", config.get("layer_norm_eps", 1e-12)
        norm_of_sum = Norm(weights(f"{norm}.weight", self.hidden), weights(f"{norm}.bias", self.hidden), eps)
        self._embedding = Embedding(norm_of_sum, dtype, words, places, kinds)
        count = config[names.layers]
        self._layers = [_Layer(weights, names.layer.format(i), names, config, dtype) for i in range(count)]

    def __call__(self, step: Step) -> torch.Tensor:
        x = self._embedding(step)
        for layer in self._layers:
            x = layer(x, step)
        return x
