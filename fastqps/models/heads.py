"""From hidden states to one row per item: pooling, then small projections in fp32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from fastqps import _core
from fastqps.models.card import ModelError
from fastqps.models.checkpoint import Checkpoint
from fastqps.models.layers import Norm
from fastqps.models.pipeline import POOLINGS, Dense
from fastqps.models.step import Step, address
from fastqps.models.weights import Weights

_ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "identity": lambda x: x,
    "tanh": torch.tanh,
    "relu": F.relu,
    "gelu": F.gelu,
    "sigmoid": torch.sigmoid,
}


def pool(hidden: torch.Tensor, step: Step, mode: str) -> torch.Tensor:
    """hidden [tokens, width] → float32 [items, width]: each item's first token, mean or maximum."""
    if mode == "cls":
        return hidden[step.starts[:-1]].float()
    if mode == "max":
        return torch.segment_reduce(hidden.float(), "max", lengths=step.starts.diff().long())
    items, width = len(step.starts) - 1, hidden.shape[1]
    out = torch.empty(items, width, dtype=torch.float32)
    _core.means(address(out), address(hidden), hidden.dtype == torch.bfloat16, width, address(step.starts), items)
    return out


class Projection:
    """x [items, inputs] → norm(activation(x · weightᵀ + bias)) [items, outputs], the norm where there is one."""

    def __init__(
        self, weight: torch.Tensor, bias: torch.Tensor | None, activation: str = "identity", norm: Norm | None = None
    ) -> None:
        if activation not in _ACTIVATIONS:
            raise ModelError(f"a head with activation {activation!r} is not supported: {', '.join(_ACTIVATIONS)} are")
        self._weight, self._bias, self._activation, self._norm = weight, bias, _ACTIVATIONS[activation], norm

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        x = self._activation(F.linear(x, self._weight, self._bias))
        return self._norm(x) if self._norm else x


class Head:
    """Pooling and projections: (hidden states, ``Step``) → float32 [items, outputs]."""

    def __init__(self, pooling: str, projections: list[Projection]) -> None:
        if pooling not in POOLINGS:
            raise ModelError(f"pooling {pooling!r} is not supported; supported: {', '.join(POOLINGS)}")
        self._pooling, self._projections = pooling, projections

    def __call__(self, hidden: torch.Tensor, step: Step) -> torch.Tensor:
        rows = pool(hidden, step, self._pooling)
        for projection in self._projections:
            rows = projection(rows)
        return rows


def make_head(checkpoint: Checkpoint, weights: Weights, hidden: int, labels: int) -> Head:
    """The head that the checkpoint's configuration and tensors describe."""
    if checkpoint.classify:
        return _classifier(checkpoint.family, checkpoint.config, weights, hidden, labels)
    pipeline = checkpoint.pipeline
    return Head(pipeline.pooling, [_dense(checkpoint, dense) for dense in pipeline.dense])


def _dense(checkpoint: Checkpoint, dense: Dense) -> Projection:
    weights = Weights([checkpoint.root / dense.folder / "model.safetensors"])
    bias = weights("linear.bias", dense.out_features) if dense.bias else None
    weight = weights("linear.weight", dense.out_features, dense.in_features)
    return Projection(weight, bias, dense.activation.lower())


def _classifier(family: str, config: dict[str, Any], weights: Weights, hidden: int, labels: int) -> Head:
    def layer(name: str, outputs: int, activation: str = "identity") -> Projection:
        return Projection(weights(f"{name}.weight", outputs, hidden), weights(f"{name}.bias", outputs), activation)

    if family == "bert":
        return Head("cls", [layer("pooler.dense", hidden, "tanh"), layer("classifier", labels)])
    if family == "distilbert":
        return Head("cls", [layer("pre_classifier", hidden, "relu"), layer("classifier", labels)])
    if family == "roberta":
        return Head("cls", [layer("classifier.dense", hidden, "tanh"), layer("classifier.out_proj", labels)])
    norm = Norm(weights("head.norm.weight", hidden), weights.get("head.norm.bias"), config.get("norm_eps", 1e-5))
    dense = weights("head.dense.weight", hidden, hidden)
    first = Projection(dense, weights.get("head.dense.bias"), config.get("classifier_activation", "gelu"), norm)
    return Head(config.get("classifier_pooling", "cls"), [first, layer("classifier", labels)])
