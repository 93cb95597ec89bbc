"""Turns hidden states into output rows: small projections in fp32 of each item, behind a pooling, or of each token."""

from __future__ import annotations

from collections.abc import Callable

import torch

from fastqps.architectures.vocabulary_head import SparseHead
from fastqps.architectures.weights import Weights
from fastqps.errors import ModelError
from fastqps.models.card import ModelCard
from fastqps.models.checkpoint import Checkpoint
from fastqps.models.families.encoder import EncoderConfig, HeadConfig
from fastqps.models.sentence_transformers.pipeline import POOLINGS, Dense
from fastqps.ops.interface import EncoderOps, Norm
from fastqps.ops.rows import HEAD_FUNCTIONS
from fastqps.ops.step import Step


class Projection:
    """x [rows, inputs] → norm(product(x)) [rows, outputs], the norm where there is one."""

    def __init__(self, product: Callable[[torch.Tensor], torch.Tensor], norm: Norm | None = None) -> None:
        self._product, self._norm = product, norm

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        x = self._product(x)
        return self._norm(x, None).tensor if self._norm else x


def _projected(
    ops: EncoderOps, weight: torch.Tensor, bias: torch.Tensor | None, activation: str, norm: Norm | None = None
) -> Projection:
    if activation not in HEAD_FUNCTIONS:
        raise ModelError(f"a head with activation {activation!r} is not supported: {', '.join(HEAD_FUNCTIONS)} are")
    return Projection(ops.projection(weight, bias, activation), norm)


class Head:
    """Pooling and projections: (hidden states, ``Step``) → float32 [items, outputs]."""

    def __init__(
        self, pooling: str, projections: list[Projection], ops: EncoderOps, skipped: int | None = None
    ) -> None:
        if pooling not in POOLINGS:
            raise ModelError(f"pooling {pooling!r} is not supported; supported: {', '.join(POOLINGS)}")
        self._pooling, self._projections, self._ops, self._skipped = pooling, projections, ops, skipped

    @property
    def of_last_rows(self) -> bool:
        """Whether it reads each item's last row alone."""
        return self._pooling == "lasttoken" and self._skipped is None

    def __call__(self, hidden: torch.Tensor, step: Step) -> torch.Tensor:
        return self.finish(hidden, step, self._pooling)

    def finish(self, hidden: torch.Tensor, step: Step, pooling: str) -> torch.Tensor:
        """The answer to rows that are pooled so; ``tokens``: rows [items, width] of items."""
        rows = self._ops.pool(hidden, step, pooling, not self._projections, self._skipped)
        for projection in self._projections:
            rows = projection(rows)
        return self._ops.answer(rows, step) if self._projections else rows


class TokenHead:
    """Projections of each token: (hidden states, ``Step``) → float32 [tokens, outputs]."""

    def __init__(self, projections: list[Projection], ops: EncoderOps) -> None:
        self._projections, self._ops = projections, ops

    def __call__(self, hidden: torch.Tensor, step: Step) -> torch.Tensor:
        rows = self._ops.pool(hidden, step, "tokens", not self._projections)
        for projection in self._projections:
            rows = projection(rows)
        return self._ops.answer(rows, step) if self._projections else rows


def make_head(
    card: ModelCard, checkpoint: Checkpoint, weights: Weights, config: EncoderConfig, ops: EncoderOps
) -> Head | TokenHead | SparseHead:
    """The head that the checkpoint's configuration and tensors describe."""
    labels = len(card.labels)
    if card.label_ids:
        return _tokens_head(card, checkpoint, weights, config.hidden, ops)
    if checkpoint.task == "classify":
        return _classifier(checkpoint, weights, config, labels, ops)
    if checkpoint.task == "classify_tokens":
        return _token_classifier(checkpoint, weights, config, labels, ops)
    pipeline = checkpoint.pipeline
    if pipeline.splade:
        head = checkpoint.vocabulary_head()
        return SparseHead(weights, config, head, pipeline.splade, card.max_active_dims, ops)
    if pipeline.multi:
        return TokenHead([_dense(checkpoint, dense, ops) for dense in pipeline.dense], ops)
    return Head(pipeline.pooling, [_dense(checkpoint, dense, ops) for dense in pipeline.dense], ops)


def _dense(checkpoint: Checkpoint, dense: Dense, ops: EncoderOps) -> Projection:
    weights = Weights([checkpoint.root / dense.folder / "model.safetensors"], data=ops.reads_weights)
    bias = weights("linear.bias", dense.out_features) if dense.bias else None
    weight = weights("linear.weight", dense.out_features, dense.in_features)
    if weights.unread():
        names = ", ".join(sorted(weights.unread()))
        raise ModelError(f"{weights.where}: has {names}, for which the projection of config.json has no place")
    return _projected(ops, weight, bias, dense.activation.lower())


def _tokens_head(card: ModelCard, checkpoint: Checkpoint, weights: Weights, width: int, ops: EncoderOps) -> Head:
    """The logits of tokens that are labels, at the last token: rows of the vocabulary's projection."""
    logits, compared = checkpoint.token_logits(), card.against_id >= 0
    ids = [*card.label_ids, *([card.against_id] if compared else [])]
    rows = logits.scale * weights.rows(f"{logits.module}.weight", ids, card.vocab_size, width)
    if compared:
        rows = rows[:-1] - rows[-1:]
    return Head("lasttoken", [Projection(ops.projection(rows, None))], ops)


def _classifier(checkpoint: Checkpoint, weights: Weights, config: EncoderConfig, labels: int, ops: EncoderOps) -> Head:
    head = checkpoint.head_config()
    last = _labels(head.labels, weights, config, labels, ops, head.labels_bias)
    first = [_first_projection(head, weights, config, ops)] if head.dense else []
    return Head(head.pooling, [*first, last], ops, head.skipped)


def _token_classifier(
    checkpoint: Checkpoint, weights: Weights, config: EncoderConfig, labels: int, ops: EncoderOps
) -> TokenHead:
    head = checkpoint.token_head_config()
    if head is None:
        return TokenHead([_labels("classifier", weights, config, labels, ops)], ops)
    first = [_first_projection(head, weights, config, ops)] if head.dense else []
    return TokenHead([*first, _labels(head.labels, weights, config, labels, ops, head.labels_bias)], ops)


def _first_projection(head: HeadConfig, weights: Weights, config: EncoderConfig, ops: EncoderOps) -> Projection:
    norm, hidden = None, config.hidden
    if head.norm:
        norm_bias = weights(f"{head.norm}.bias", hidden) if head.norm_bias else None
        norm = ops.norm(weights(f"{head.norm}.weight", hidden), norm_bias, config.eps, "layer")
    bias = weights(f"{head.dense}.bias", hidden) if head.bias else None
    return _projected(ops, weights(f"{head.dense}.weight", hidden, hidden), bias, head.activation, norm)


def _labels(
    name: str, weights: Weights, config: EncoderConfig, labels: int, ops: EncoderOps, biased: bool = True
) -> Projection:
    bias = weights(f"{name}.bias", labels) if biased else None
    return Projection(ops.projection(weights(f"{name}.weight", labels, config.hidden), bias))
