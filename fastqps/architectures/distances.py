"""Tables by the distance of two tokens, by which attention knows positions: how far a key is before its query."""

from __future__ import annotations

import math

import torch
from torch.nn import functional as F

from fastqps.architectures.weights import Weights
from fastqps.models.families.encoder import BertConfig, Disentangled
from fastqps.ops.interface import reach_of


def distance_biases(table: torch.Tensor, max_tokens: int, farthest: int) -> torch.Tensor:
    """``EncoderOps.attend``'s bias, float32 [heads, 2 · reach + 1], of a table [buckets, heads].

    The first half of the buckets is for keys before the query, the second for keys behind it. In each half, the first
    buckets are one distance each; the others grow logarithmically, up to ``farthest`` tokens.
    """
    reach = reach_of(max_tokens)
    if table.is_meta:
        return table.new_empty(table.shape[1], 2 * reach + 1)
    distance = torch.arange(-reach, reach + 1)
    half, exact = len(table) // 2, len(table) // 4
    growth = torch.log(distance.abs().float() / exact) / math.log(farthest / exact) * (half - exact)
    far = (exact + growth.clamp(min=0).long()).clamp(max=half - 1)
    bucket = torch.where(distance.abs() < exact, distance.abs(), far)
    return table[bucket + half * (distance < 0)].T.contiguous()


def alibi_biases(heads: int, max_tokens: int) -> torch.Tensor:
    """``EncoderOps.attend``'s bias, float32 [heads, 2 · reach + 1], that falls with the distance either way."""
    reach = reach_of(max_tokens)
    distance = torch.arange(-reach, reach + 1).abs().float()
    return -torch.tensor(alibi_slopes(heads))[:, None] * distance


def alibi_slopes(heads: int) -> list[float]:
    """Powers of 2^(-8 / heads). Heads beyond a power of two take the slopes between those powers."""
    power = 1 << (heads.bit_length() - 1)
    slopes = [2.0 ** (-8 / power * (i + 1)) for i in range(power)]
    return slopes + [2.0 ** (-4 / power * (2 * i + 1)) for i in range(heads - power)]


class DistanceVectors:
    """Rows of a table of distances, of which each layer makes the vectors for its queries and keys."""

    def __init__(self, weights: Weights, config: BertConfig, disentangled: Disentangled, max_tokens: int) -> None:
        self._weights, self._config, self._disentangled = weights, config, disentangled
        reach, hidden = reach_of(max_tokens), config.hidden
        self._rows = distance_rows(torch.arange(-reach, reach + 16), disentangled)
        table = weights(f"{disentangled.table}.weight", 2 * disentangled.span, hidden)
        if disentangled.norm:
            weight, bias = (weights(f"{disentangled.norm}.{part}", hidden) for part in ("weight", "bias"))
            table = F.layer_norm(table, (hidden,), weight, bias, config.eps)
        self._first = int(self._rows[0])
        self._table = table[self._first : int(self._rows[-1]) + 1]  # distances that occur

    def of_layer(self, at: str) -> torch.Tensor:
        """``EncoderOps.relative``'s tables, float32 [2, heads, size, 2 · reach + 16], of the layer of names ``at``."""
        keys, queries = (self._projected(at + name) for name in self._disentangled.projections)
        return torch.stack((keys, queries * (self._config.query_scale or 1.0)))

    def _projected(self, name: str) -> torch.Tensor:
        hidden, heads = self._config.hidden, self._config.heads
        weight, bias = self._weights(f"{name}.weight", hidden, hidden), self._weights(f"{name}.bias", hidden)
        by_row = F.linear(self._table, weight, bias)
        if by_row.is_meta:
            return by_row.new_empty(heads, hidden // heads, len(self._rows))
        return by_row[self._rows - self._first].view(-1, heads, hidden // heads).permute(1, 2, 0)


def distance_rows(distance: torch.Tensor, disentangled: Disentangled) -> torch.Tensor:
    """int64: the row of each distance. The middle rows are one distance each; the others grow logarithmically.

    As transformers computes it, in float32: a row decides what a distance means.
    """
    span, farthest = disentangled.span, disentangled.farthest
    row = distance
    if farthest:
        near = span // 2
        far = distance.abs().clamp(min=near)
        steps = torch.log(far / near) / torch.log(torch.tensor((farthest - 1) / near)) * (near - 1)
        row = torch.where(distance.abs() <= near, distance, ((steps.ceil() + near) * distance.sign()).long())
    return (row + span).clamp(0, 2 * span - 1)
