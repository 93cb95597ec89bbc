"""The last kernel of an embedder's step: one float32 row for each item, from the hidden states of its tokens."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from fastqps.kernels.results import Pooled, check_contiguous
from fastqps.kernels.shapes import pool_shape
from fastqps.kernels.stamps import stamp_end, stamped


@triton.jit(do_not_specialize=["skipped"])
def pool_kernel(
    hidden,
    cu_seqlens,
    counts,
    ids,
    skipped,
    out,
    stamps,
    WIDTH: tl.constexpr,
    MODE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    mask = columns < WIDTH
    item = tl.program_id(1)
    start = tl.load(cu_seqlens + item)
    end = tl.load(cu_seqlens + item + 1)
    n_items = tl.load(counts + 1)
    while item < n_items:
        following = item + tl.num_programs(1)
        next_start = tl.load(cu_seqlens + following, following < n_items, 0)
        next_end = tl.load(cu_seqlens + following + 1, following < n_items, 0)
        if MODE == "cls" or MODE == "lasttoken":
            row = start if MODE == "cls" else end - 1
            if ids is not None:
                while (row > start) & (tl.load(ids + row, row > start, 0) == skipped):
                    row -= 1
            pooled = tl.load(hidden + row.to(tl.int64) * WIDTH + columns, mask, 0.0).to(tl.float32)
        else:
            nothing = float("-inf") if MODE == "max" else 0.0
            tile = tl.full([ROWS, COLUMNS], nothing, tl.float32)
            for at in range(start, end, ROWS):
                rows = at + tl.arange(0, ROWS)
                source = hidden + rows.to(tl.int64)[:, None] * WIDTH + columns[None, :]
                x = tl.load(source, (rows < end)[:, None] & mask[None, :], nothing).to(tl.float32)
                tile = tl.maximum(tile, x) if MODE == "max" else tile + x
            pooled = tl.max(tile, 0) if MODE == "max" else tl.sum(tile, 0) / tl.maximum(end - start, 1)
        tl.store(out + item.to(tl.int64) * WIDTH + columns, pooled, mask)
        item, start, end = following, next_start, next_end
    if stamps is not None:
        stamp_end(stamps)


def pool(
    hidden: torch.Tensor,
    cu_seqlens: torch.Tensor,
    counts: torch.Tensor,
    mode: Pooled,
    *,
    ids: torch.Tensor | None = None,
    skipped: int | None = None,
    out: torch.Tensor | None = None,
    stamps: torch.Tensor | None = None,
) -> torch.Tensor:
    """hidden [tokens, width] → float32 [items, width]: each item's first or last row, mean or largest numbers.

    cu_seqlens: int32 [items + 1]; counts: int32, n_tokens and n_items. Rows of items from n_items on are not written.
    ids: int32 [tokens], of which ``lasttoken`` passes over those that are ``skipped``, down to an item's first row.
    stamps: int64 [2], of which this kernel writes the end.
    """
    check_contiguous(hidden=hidden, cu_seqlens=cu_seqlens, out=out)
    items, width = len(cu_seqlens) - 1, hidden.shape[1]
    if out is None:
        out = torch.empty(items, width, dtype=torch.float32, device=hidden.device)
    tile = pool_shape(width, items)
    pool_kernel[(triton.cdiv(width, tile.columns), tile.items)](
        hidden,
        cu_seqlens,
        counts,
        ids if mode == "lasttoken" else None,
        -1 if skipped is None else skipped,
        out,
        stamped(stamps),
        WIDTH=width,
        MODE=mode,
        ROWS=tile.rows,
        COLUMNS=tile.columns,
        num_warps=tile.warps,
    )
    return out
