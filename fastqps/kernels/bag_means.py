"""The one kernel of a static model's step: the weighted mean of the rows of a table that each item's ids name."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from fastqps.kernels.results import check_contiguous
from fastqps.kernels.shapes import bag_shape
from fastqps.kernels.stamps import stamp_start, stamped


@triton.jit(do_not_specialize=["n_ids", "skipped_id"])
def bag_means_kernel(
    table,
    mapping,
    weights,
    ids,
    cu_seqlens,
    counts,
    out,
    stamps,
    n_ids,
    skipped_id,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    item = tl.program_id(1)
    if stamps is not None:
        if (item == 0) & (tl.program_id(0) == 0):
            stamp_start(stamps)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    mask = columns < WIDTH
    live = item < tl.load(counts + 1)
    start = tl.load(cu_seqlens + item)
    end = tl.where(live, tl.load(cu_seqlens + item + 1), start)  # padding has no tokens
    sums = tl.zeros([ROWS, COLUMNS], tl.float32)
    counted = tl.zeros([ROWS], tl.int32)
    for at in range(start, end, ROWS):
        tokens = at + tl.arange(0, ROWS)
        id = tl.load(ids + tokens, tokens < end, -1)
        named = (id >= 0) & (id < n_ids) & (id != skipped_id)
        row = id
        if mapping is not None:
            row = tl.load(mapping + id, named, 0)
        source = table + row.to(tl.int64)[:, None] * WIDTH + columns[None, :]
        x = tl.load(source, named[:, None] & mask[None, :], 0.0).to(tl.float32)
        if weights is not None:
            x *= tl.load(weights + id, named, 0.0)[:, None]
        sums += x
        counted += named.to(tl.int32)
    mean = tl.sum(sums, 0) / tl.maximum(tl.sum(counted, 0), 1)
    tl.store(out + item.to(tl.int64) * WIDTH + columns, mean, mask & live)


def bag_means(
    table: torch.Tensor,
    mapping: torch.Tensor | None,
    weights: torch.Tensor | None,
    ids: torch.Tensor,
    cu_seqlens: torch.Tensor,
    counts: torch.Tensor,
    n_ids: int,
    skipped_id: int = -1,
    *,
    out: torch.Tensor | None = None,
    stamps: torch.Tensor | None = None,
) -> torch.Tensor:
    """table [rows, width] of float32, bfloat16, float16 or int8 → float32 [items, width]; zeros where no id counts.

    mapping: int32 [n_ids], the row of each id, else it is the id itself. weights: float32 [n_ids], what an id's row is
    multiplied by. Ids from n_ids on and skipped_id name no row and are not counted. cu_seqlens: int32 [items + 1];
    counts: int32, n_tokens and n_items. Rows of items from n_items on are not written. stamps: int64 [2], of which this
    kernel writes the start.
    """
    check_contiguous(table=table, mapping=mapping, weights=weights, ids=ids, cu_seqlens=cu_seqlens, out=out)
    items, width = len(cu_seqlens) - 1, table.shape[1]
    if out is None:
        out = torch.empty(items, width, dtype=torch.float32, device=table.device)
    tile = bag_shape()
    bag_means_kernel[(triton.cdiv(width, tile.columns), items)](
        table,
        mapping,
        weights,
        ids,
        cu_seqlens,
        counts,
        out,
        stamped(stamps),
        n_ids,
        skipped_id,
        WIDTH=width,
        ROWS=tile.rows,
        COLUMNS=tile.columns,
        num_warps=tile.warps,
    )
    return out
