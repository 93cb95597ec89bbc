"""The head of a masked language model, and the sparse embedding that SPLADE makes of its logits."""

from __future__ import annotations

from collections.abc import Callable

import torch

from fastqps.architectures.weights import Weights
from fastqps.models.families.encoder import EncoderConfig, VocabularyHead
from fastqps.models.sentence_transformers.splade import SpladeActivation
from fastqps.ops.fp8 import Quantised, Weight
from fastqps.ops.interface import EncoderOps, Linear, Rows, Site
from fastqps.ops.step import Step

# Columns of one product: logits of all tokens and the whole vocabulary would take a hundred times the hidden states.
_COLUMNS = 4096

_WEIGHT_OF: dict[SpladeActivation, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": lambda logits: logits.relu().log1p(),
    "log1p_relu": lambda logits: logits.relu().log1p().log1p(),
}


class _Values:
    """A reader of rows in the model's type: the norm."""

    fp8 = False


class SparseHead:
    """(hidden states, ``Step``) → float32 [items, 2 · dims + 1]: weights, token ids, and the number of weights above 0.

    A weight is a function of the largest logit of any token, which the function leaves the largest.
    """

    def __init__(
        self,
        weights: Weights,
        config: EncoderConfig,
        head: VocabularyHead,
        activation: SpladeActivation,
        dims: int,
        ops: EncoderOps,
    ) -> None:
        site = Site("head")
        self._ops, self._weight_of, self._dims = ops, _WEIGHT_OF[activation], dims
        dense = weights.matrix(f"{head.dense}.weight", head.width, config.hidden)
        bias = weights(f"{head.dense}.bias", head.width) if head.dense_bias else None
        self._dense = ops.activated(dense, bias, head.activation, site)
        norm_bias = weights(f"{head.norm}.bias", head.width) if head.norm_bias else None
        self._norm = ops.norm(weights(f"{head.norm}.weight", head.width), norm_bias, head.eps, "layer")
        matrix, bias = _decoder(weights, config.vocab, head)
        self._parts = [
            ops.linear(_columns(matrix, at), None if bias is None else bias[at : at + _COLUMNS], site)
            for at in range(0, config.vocab, _COLUMNS)
        ]

    def __call__(self, hidden: torch.Tensor, step: Step) -> torch.Tensor:
        ops, reader = self._ops, self._parts[0]
        rows = self._norm(self._dense(ops.rows(hidden, self._dense), _Values()).tensor, reader)
        largest = [self._largest(part, rows, step) for part in self._parts]
        return ops.answer_by("sparse embeddings", self._heaviest, 2 * self._dims + 1, largest, step)

    def _heaviest(self, *largest: torch.Tensor) -> torch.Tensor:
        logits = torch.cat(largest, 1)
        top, ids = logits.topk(self._dims, 1, sorted=False)
        active = (logits > 0).sum(1, keepdim=True)
        return torch.cat((self._weight_of(top), ids.float(), active.float()), 1)

    def _largest(self, part: Linear, rows: Rows, step: Step) -> torch.Tensor:
        return self._ops.pool(part(rows), step, "max", last=False)


def _columns(matrix: Weight, at: int) -> Weight:
    if isinstance(matrix, Quantised):
        return Quantised(matrix.values[at : at + _COLUMNS], matrix.scales[at : at + _COLUMNS])
    return matrix[at : at + _COLUMNS]


def _decoder(weights: Weights, vocab: int, head: VocabularyHead) -> tuple[Weight, torch.Tensor | None]:
    """The weight and the bias of the product with the vocabulary."""
    own, table = f"{head.decoder}.weight", f"{head.words}.weight"
    if head.tied:
        weights.check_tied(own, table)
        own = table
    matrix = weights.matrix(own, vocab, head.width)
    if not head.decoder_bias:
        return matrix, None
    own = f"{head.decoder}.bias"
    if head.tied and head.bias:
        weights.check_tied(own, head.bias)
        own = own if weights.get(own) is not None else head.bias
    return matrix, weights(own, vocab)
