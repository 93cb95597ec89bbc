"""A step of packed items on the device, and attention over it in plain PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from kernel_rows import DEVICE
from torch.nn import functional as F


@dataclass(frozen=True)
class Packed:
    """A step as the device has it: padding of ``tokens`` and ``items`` is older rubbish."""

    lengths: list[int]
    ids: torch.Tensor
    types: torch.Tensor
    cu_seqlens: torch.Tensor
    counts: torch.Tensor

    def spans(self) -> list[tuple[int, int]]:
        ends = self.cu_seqlens[: len(self.lengths) + 1].tolist()
        return list(pairwise(ends))

    def bounds(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Where the item of each row begins and ends, int32 [tokens] each; of padding, both end the last item."""
        total = sum(self.lengths)
        rows = [span for span in self.spans() for _ in range(*span)]
        rows += [(total, total)] * (len(self.ids) - total)
        starts, ends = torch.tensor(rows, dtype=torch.int32, device=DEVICE).T.contiguous()
        return starts, ends


def packed(lengths: list[int], spare_tokens: int = 9, spare_items: int = 3) -> Packed:
    total, generator = sum(lengths), torch.Generator().manual_seed(7)
    ids = torch.randint(0, 50, (total + spare_tokens,), generator=generator, dtype=torch.int32)
    ids[total:] = 1 << 30  # an index that must not be used
    types = torch.randint(0, 2, (total + spare_tokens,), generator=generator, dtype=torch.int32)
    types[total:] = 1 << 30
    marks = torch.zeros(len(lengths) + 1 + spare_items, dtype=torch.int32)
    marks[1 : len(lengths) + 1] = torch.tensor(lengths, dtype=torch.int32).cumsum(0)
    marks[len(lengths) + 1 :] = torch.tensor([3, 1 << 30, 0]).repeat(spare_items)[:spare_items]
    counts = torch.tensor([total, len(lengths), max(lengths, default=0)], dtype=torch.int32)
    return Packed(lengths, *(t.to(DEVICE) for t in (ids, types, marks, counts)))


def turned(x: torch.Tensor, rotary: torch.Tensor) -> torch.Tensor:
    """x [tokens, heads, size] of one item."""
    cos, sin = (rotary[: len(x), i].repeat(1, 2)[:, None] for i in (0, 1))
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


def attention(
    qkv: torch.Tensor,
    step: Packed,
    heads: int,
    window: int,
    rotary: torch.Tensor | None,
    bias: torch.Tensor | None = None,
    relative: torch.Tensor | None = None,
    kv_heads: int | None = None,
    causal: bool = False,
    norms: tuple[torch.Tensor, torch.Tensor, float] | None = None,
) -> torch.Tensor:
    """Item by item, everything in full."""
    outs, shared = [], kv_heads or heads
    for start, end in step.spans():
        rows = qkv[start:end].view(end - start, heads + 2 * shared, -1)
        q, k, v = rows.split_with_sizes([heads, shared, shared], 1)
        if norms is not None:
            q, k = (F.rms_norm(x, x.shape[-1:], weight, norms[2]) for x, weight in ((q, norms[0]), (k, norms[1])))
        k, v = (x.repeat_interleave(heads // shared, 1) for x in (k, v))
        if rotary is not None:
            q, k = turned(q, rotary), turned(k, rotary)
        place = torch.arange(end - start, device=qkv.device)
        seen = (place[:, None] - place).abs() <= (window or end)
        if causal:
            seen = seen & (place[:, None] >= place)
        scores, distance = torch.einsum("qhd,khd->hqk", q, k), place[:, None] - place
        if relative is not None:
            keys, queries = relative[..., (relative.shape[3] - 16) // 2 + distance]
            scores = scores + torch.einsum("qhd,hdqk->hqk", q, keys) + torch.einsum("khd,hdqk->hqk", k, queries)
        scores = scores / q.shape[-1] ** 0.5
        if bias is not None:
            scores = scores + bias[:, bias.shape[1] // 2 + distance]
        shares = scores.masked_fill(~seen, -torch.inf).softmax(-1)
        outs.append(torch.einsum("hqk,khd->qhd", shares, v).flatten(1))
    return torch.cat(outs)
