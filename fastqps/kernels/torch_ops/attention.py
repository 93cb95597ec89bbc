"""Attention inside the items of a packed batch, in blocks of the longest item."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional as F

from fastqps.kernels.layers import Attention
from fastqps.kernels.torch_ops.rows import normalised

_SCORES_MAX = 1 << 26  # numbers of one product: 256 MiB in float32
_BLOCK_MIN = 64  # rows


def tile_attention(
    qkv: torch.Tensor,
    row_start: torch.Tensor,
    row_end: torch.Tensor,
    attention: Attention,
    *,
    longest: int = 0,
    positions: torch.Tensor | None = None,
) -> torch.Tensor:
    """qkv [tokens, (heads + 2 · kv_heads) · size] → [tokens, heads · size]; every row sees its item's rows.

    ``positions``, int32 [tokens], are read where there is an opening: items begin there, and see what is before them.

    No row sees further than the longest item, or the window, is long. So with blocks of that many rows each block needs
    its own keys, those of the block before and those of the block behind. ``longest`` 0: an item may have all rows.

    Where an item's value is not finite, its rows that see it become NaN; other items' rows do not.
    """
    tokens = len(qkv)
    block = min(tokens, longest or tokens, max(attention.window, _BLOCK_MIN) if attention.window else tokens)
    count = -(-tokens // block)
    row = torch.arange(tokens, device=qkv.device)
    live = row_start < row_end
    first, last = (torch.where(live, mark, 0) for mark in (row_start, row_end))
    heads, shared, window, rotary = attention.heads, attention.kv_heads, attention.window, attention.rotary
    q, k, v = qkv.float().view(tokens, heads + 2 * shared, -1).split_with_sizes([heads, shared, shared], 1)
    q, k = normed(q, k, attention)
    place = torch.where(live, row - first if positions is None else positions, 0)
    before = place - torch.where(live, row - first, 0)
    if rotary is not None:
        turns = rotary[place][:, None]
        q, k = turned(q, turns), turned(k, turns)
    if window:
        first, last = torch.maximum(first, row - window), torch.minimum(last, row + window + 1)
    if attention.causal:
        last = torch.minimum(last, row + 1)
    k, v = (x[:, :, None].expand(-1, -1, heads // shared, -1).flatten(1, 2) for x in (k, v))
    q, scale = _blocks(q, block, count, 0), q.shape[2] ** -0.5
    k, v = (_blocks(x, block, count, 1).unfold(0, 3, 1).movedim(-1, 1).flatten(1, 2) for x in (k, v))
    bounds = [_blocks(bound[:, None], block, count, 0) for bound in (first, last)]
    front = _Front.of(attention, before, place, block, count)
    key = torch.arange(-block, 2 * block, device=qkv.device)
    at = block * torch.arange(count, device=qkv.device)[:, None, None] + key  # [blocks, 1, keys]
    places = Places(torch.arange(block, device=qkv.device)[:, None] - key, scale, attention.bias, attention.relative)
    relative_width = 0 if attention.relative is None else attention.relative.shape[3]
    together = max(1, _SCORES_MAX // (heads * 3 * block * max(block, relative_width)))
    out = [
        _attended(q[b], *front.of_blocks(b, k[b], v[b], (at[b] >= bounds[0][b]) & (at[b] < bounds[1][b])), places)
        for b in (slice(begin, begin + together) for begin in range(0, count, together))
    ]
    return torch.cat(out).flatten(0, 1)[:tokens].flatten(1).to(qkv.dtype)


def opening_of(qkv: torch.Tensor, attention: Attention) -> torch.Tensor:
    """``Attention.opening`` of the rows of one item, qkv [tokens, (heads + 2 · kv_heads) · size]."""
    heads, shared, rotary = attention.heads, attention.kv_heads, attention.rotary
    rows = qkv.float().view(len(qkv), heads + 2 * shared, -1)
    _, k, v = rows.split_with_sizes([heads, shared, shared], 1)
    _, k = normed(k, k, attention)
    if rotary is not None:
        k = turned(k, rotary[: len(qkv)][:, None])
    return torch.stack((k, v)).transpose(1, 2).to(qkv.dtype).contiguous()


def normed(q: torch.Tensor, k: torch.Tensor, attention: Attention) -> tuple[torch.Tensor, torch.Tensor]:
    """Queries and keys [..., size] after their norms, if there are norms."""
    if attention.q_norm is None or attention.k_norm is None:
        return q, k
    eps = attention.eps
    return normalised(q, eps, True) * attention.q_norm, normalised(k, eps, True) * attention.k_norm


def turned(x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    """x [..., size] with its halves turned against each other by cos and sin, ``turns`` [..., 2, size / 2]."""
    (a, b), (cos, sin) = x.chunk(2, -1), turns.unbind(-2)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def _blocks(x: torch.Tensor, block: int, count: int, around: int) -> torch.Tensor:
    """x [tokens, ...] → [count + 2 · around, block, ...], with zeros behind and in ``around`` blocks on each side."""
    behind = count * block - len(x) + around * block
    padded = F.pad(x, (*[0] * (2 * (x.dim() - 1)), around * block, behind))
    blocks: torch.Tensor = padded.unflatten(0, (count + 2 * around, block))
    return blocks


@dataclass(frozen=True)
class _Front:
    """The keys and values of an opening, in front of those of each block."""

    keys: torch.Tensor | None  # [tokens, heads, size]; None: there is none
    values: torch.Tensor | None
    seen: torch.Tensor  # bool [blocks, rows, tokens]

    @classmethod
    def of(cls, attention: Attention, before: torch.Tensor, place: torch.Tensor, block: int, count: int) -> _Front:
        """``before``, ``place`` [rows]: how much of the opening is in front of a row's item, and the row's position."""
        if attention.opening is None:
            return cls(None, None, before.new_empty(count, 0, 0, dtype=torch.bool))
        shared = attention.heads // attention.kv_heads
        of_heads = attention.opening.float()[:, :, None].expand(-1, -1, shared, -1, -1).flatten(1, 2)
        keys, values = of_heads.transpose(1, 2)
        at = torch.arange(len(keys), device=keys.device)
        seen = at < before[:, None]
        if attention.window:
            seen &= at >= place[:, None] - attention.window
        return cls(keys, values, _blocks(seen, block, count, 0))

    def of_blocks(
        self, blocks: slice, k: torch.Tensor, v: torch.Tensor, seen: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """k, v [blocks, keys, heads, size] and seen [blocks, rows, keys] with the opening in front of them."""
        if self.keys is None or self.values is None:
            return k, v, seen
        front = (x.expand(len(k), -1, -1, -1) for x in (self.keys, self.values))
        k, v = (torch.cat(both, 1) for both in zip(front, (k, v), strict=True))
        return k, v, torch.cat((self.seen[blocks], seen), 2)


@dataclass(frozen=True)
class Places:
    """The terms of scores that depend on the places of query and key in a block. They are the same in each block."""

    distance: torch.Tensor  # int64 [rows, keys]: by which the key is before the query
    scale: float
    bias: torch.Tensor | None
    relative: torch.Tensor | None

    def scores(self, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        """q [blocks, heads, rows, size], k [blocks, heads, keys, size] → [blocks, heads, rows, keys]."""
        scores = q @ k.transpose(2, 3)
        if self.relative is not None:
            keys, queries = self.relative.float()
            reach = (keys.shape[2] - 16) // 2
            column = (reach + self.distance).clamp(0, 2 * reach).expand(scores.shape)
            scores = scores + (q @ keys).gather(3, column)
            scores = scores + (k @ queries).gather(3, column.transpose(2, 3)).transpose(2, 3)
        scores = scores * self.scale
        if self.bias is None:
            return scores
        reach = self.bias.shape[1] // 2
        return scores + self.bias[:, (reach + self.distance).clamp(0, 2 * reach)]


def _attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, seen: torch.Tensor, places: Places) -> torch.Tensor:
    """q [blocks, rows, heads, size], k and v [blocks, keys, heads, size], seen [blocks, rows, keys] → as q."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    scores = torch.where(seen[:, None], places.scores(q, k), -torch.inf)
    weights = torch.where(seen[:, None], scores.softmax(-1), 0.0)  # rows that see nothing: zeros, not NaN
    finite = v.isfinite()
    out = weights @ torch.where(finite, v, 0.0)
    spoiled = seen[:, None].float() @ (~finite).float()  # a weight of 0 does not keep NaN and infinity away
    return torch.where(spoiled > 0, torch.nan, out).transpose(1, 2)
