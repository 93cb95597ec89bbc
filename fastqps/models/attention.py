"""Attention inside each item of a packed batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional as F


@dataclass(frozen=True)
class Step:
    """One packed batch. ``ids``, ``positions``, ``types``: int32 [tokens]; ``starts``: int32 [items + 1]."""

    ids: torch.Tensor
    positions: torch.Tensor
    types: torch.Tensor
    starts: torch.Tensor
    max_len: int


def attend(
    qkv: torch.Tensor, step: Step, heads: int, window: int = 0, rotary: torch.Tensor | None = None
) -> torch.Tensor:
    """qkv [tokens, 3 · heads · size] → [tokens, heads · size]; every token sees its item's tokens.

    With ``window`` it sees only those at most ``window`` positions away.
    """
    tokens, width = qkv.shape[0], qkv.shape[1] // 3
    if rotary is not None:
        cos, sin = rotary[step.positions.long()].unbind(1)
        a, b = qkv[:, : 2 * width].float().view(tokens, 2 * heads, 2, width // heads // 2).unbind(2)
        cos, sin = cos[:, None], sin[:, None]
        turned = torch.stack((a * cos - b * sin, b * cos + a * sin), 2)
        qkv = torch.cat((turned.view(tokens, 2 * width).to(qkv.dtype), qkv[:, 2 * width :]), 1)
    lengths = step.starts.diff().long()
    items, longest = len(lengths), step.max_len
    at = torch.arange(longest)
    real = at < lengths[:, None]
    where = torch.nonzero(real.reshape(-1)).reshape(-1)
    padded = qkv.new_zeros(items * longest, 3 * width).index_copy_(0, where, qkv)
    q, k, v = padded.view(items, longest, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
    mask = real[:, None, None, :]
    if window:
        mask = mask & ((at[:, None] - at).abs() <= window)
        mask = mask | ~real[:, None, :, None]
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return out.transpose(1, 2).reshape(items * longest, width)[where].view(tokens, width)
