"""The first kernel of an encoder's step: each token's item and place, its rows of the tables, and their norm."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from fastqps.kernels.add_norm import normalised
from fastqps.kernels.fp8 import empty_fp8, store_fp8
from fastqps.kernels.results import Embedded
from fastqps.kernels.shapes import row_shape, search_shape
from fastqps.kernels.stamps import stamp_start, stamped
from fastqps.kernels.tensors import check_contiguous


@triton.jit
def item_of(token, cu_seqlens, n_items, entries, SCAN: tl.constexpr, STRIDE: tl.constexpr):
    """(start, end) of the item that holds ``token``: the marks of cu_seqlens [entries] around it.

    Compared with SCAN marks at once, each STRIDE-th if there are more, then with those between two of them: one or two
    loads that depend on each other, where a binary search has eight or more.
    """
    near = tl.arange(0, SCAN)
    if STRIDE > 1:
        coarse = tl.load(cu_seqlens + near * STRIDE, near * STRIDE < entries, 0)
        below = (near * STRIDE <= n_items) & (coarse <= token)
        near = (tl.sum(below.to(tl.int32), 0) - 1) * STRIDE + tl.arange(0, 2 * STRIDE)
    marks = tl.load(cu_seqlens + near, near < entries, 0)
    valid = near <= n_items
    start = tl.max(tl.where(valid & (marks <= token), marks, 0), 0)
    end = tl.min(tl.where(valid & (marks > token), marks, 0x7FFFFFFF), 0)
    return start, end


@triton.jit
def padding_before(ids, padding, start, row, SPAN: tl.constexpr = 256):
    """The number of padding tokens from ``start`` up to ``row``."""
    near = tl.arange(0, SPAN)
    found = tl.zeros([SPAN], tl.int32)
    for at in range(start, row, SPAN):
        there = at + near < row
        found += (there & (tl.load(ids + at + near, there, 0) == padding)).to(tl.int32)
    return tl.sum(found, 0)


@triton.jit(do_not_specialize=["position_offset", "entries"])
def embed_norm_kernel(
    ids,
    types,
    cu_seqlens,
    counts,
    words,
    places,
    kinds,
    weight,
    bias,
    values,
    fp8,
    scale,
    row_start,
    row_end,
    stamps,
    eps,
    position_offset,
    entries,
    SCAN: tl.constexpr,
    STRIDE: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    PADDING: tl.constexpr,
):
    row = tl.program_id(0)
    if stamps is not None:
        if row == 0:
            stamp_start(stamps)
    n_tokens = tl.load(counts)
    n_items = tl.load(counts + 1)
    word = tl.load(ids + row)
    live = row < n_tokens
    columns = tl.arange(0, BLOCK)
    mask = columns < WIDTH

    # What lies behind the last token is an older step's: no index may come from it.
    word = tl.where(live, word, 0).to(tl.int64)
    x = tl.load(words + word * WIDTH + columns, mask, 0.0).to(tl.float32)
    if kinds is not None:
        kind = tl.where(live, tl.load(types + row), 0) if types is not None else 0
        x += tl.load(kinds + kind * WIDTH + columns, mask, 0.0).to(tl.float32)
    start, end = item_of(row, cu_seqlens, n_items, entries, SCAN, STRIDE)
    tl.store(row_start + row, tl.where(live, start, n_tokens))
    tl.store(row_end + row, tl.where(live, end, n_tokens))
    if places is not None:
        place = tl.where(live, row - start, 0) + position_offset
        if PADDING:
            place -= padding_before(ids, position_offset - 1, start, tl.where(live, row, start))
            place = tl.where(word == position_offset - 1, position_offset - 1, place)
        x += tl.load(places + place * WIDTH + columns, mask, 0.0).to(tl.float32)

    if weight is not None:
        x = normalised(x, mask, WIDTH, eps, False) * tl.load(weight + columns, mask, 0.0).to(tl.float32)
    if bias is not None:
        x += tl.load(bias + columns, mask, 0.0).to(tl.float32)
    first = row.to(tl.int64) * WIDTH
    if values is not None:
        tl.store(values + first + columns, x.to(values.dtype.element_ty), mask & live)
    if fp8 is not None:
        store_fp8(fp8 + first, scale, row, columns, mask, x, live)


def embed_norm(
    ids: torch.Tensor,
    types: torch.Tensor | None,
    cu_seqlens: torch.Tensor,
    counts: torch.Tensor,
    words: torch.Tensor,
    places: torch.Tensor | None,
    kinds: torch.Tensor | None,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
    position_offset: int = 0,
    *,
    want_values: bool = True,
    want_fp8: bool = False,
    stamps: torch.Tensor | None = None,
) -> Embedded:
    """Layer norm of each token's row of ``words`` plus that of its position and type, where there are such tables.

    ids, types: int32 [tokens]; without types all are 0. cu_seqlens: int32 [items + 1], from 0 to n_tokens, of which
    n_items + 1 count. counts: int32, n_tokens and n_items. Tables: [entries, width], of one type. weight, bias:
    [width]; without a weight the sum is not normalised. stamps: int64 [2], of which this kernel writes the start.
    position_offset: the place of an item's first token. Where it is not 0, the id below it is that of padding in texts:
    it is not counted, and is its own place.
    """
    check_contiguous(ids=ids, types=types, cu_seqlens=cu_seqlens, words=words, places=places, kinds=kinds)
    tokens, width, entries = len(ids), words.shape[1], len(cu_seqlens)
    shape, search = row_shape(width), search_shape(entries)
    values = torch.empty(tokens, width, dtype=words.dtype, device=words.device) if want_values else None
    fp8, scale = empty_fp8(ids, width) if want_fp8 else (None, None)
    row_start, row_end = torch.empty_like(ids), torch.empty_like(ids)
    embed_norm_kernel[(tokens,)](
        ids,
        types,
        cu_seqlens,
        counts,
        words,
        places,
        kinds,
        weight,
        bias,
        values,
        fp8,
        scale,
        row_start,
        row_end,
        stamped(stamps),
        eps,
        position_offset,
        entries,
        SCAN=search.scan,
        STRIDE=search.stride,
        WIDTH=width,
        BLOCK=shape.block,
        PADDING=position_offset > 0,
        num_warps=shape.warps,
    )
    return Embedded(values, fp8, scale, row_start, row_end)
