"""The first kernel of an encoder's step: each token's item and place, its rows of the tables, and their norm."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from fastqps.kernels.add_norm import normalised
from fastqps.kernels.fp8 import empty_fp8, store_fp8
from fastqps.kernels.layers import Tables
from fastqps.kernels.results import Embedded, check_contiguous
from fastqps.kernels.shapes import row_shape, search_shape
from fastqps.kernels.stamps import stamp_start, stamped


@triton.jit
def marks_around(first, cu_seqlens, n_items, entries, SCAN: tl.constexpr, STRIDE: tl.constexpr, ROWS: tl.constexpr):
    """Finds three things among the marks of cu_seqlens [entries]: the last one up to token ``first``, the first one
    behind ROWS tokens from there, and those between as bits. Bit i is set if an item begins at the i-th token.

    Compared with SCAN marks at once, each STRIDE-th if there are more, then with those around the tokens: one or two
    loads that depend on each other, where a binary search has eight or more.
    """
    last = first + ROWS - 1
    near = tl.arange(0, SCAN)
    begin, stop = 0, 1
    if STRIDE > 1:
        coarse = tl.load(cu_seqlens + near * STRIDE, near * STRIDE < entries, 0)
        coarse = tl.where(near * STRIDE <= n_items, coarse, 0x7FFFFFFF)
        begin = (tl.sum((coarse <= first).to(tl.int32), 0) - 1) * STRIDE
        stop = tl.sum((coarse <= last).to(tl.int32), 0) * STRIDE + 1
        near = tl.arange(0, 2 * STRIDE)
    before, behind, between = 0, 0x7FFFFFFF, 0
    for at in range(begin, stop, 2 * STRIDE):
        marks = tl.load(cu_seqlens + at + near, at + near < entries, 0)
        real = at + near <= n_items
        before = tl.maximum(before, tl.max(tl.where(real & (marks <= first), marks, 0), 0))
        behind = tl.minimum(behind, tl.min(tl.where(real & (marks > last), marks, 0x7FFFFFFF), 0))
        if ROWS > 1:
            inside = real & (marks > first) & (marks <= last)
            between |= tl.reduce_or(tl.where(inside, 1 << ((marks - first) & 31), 0), 0)
    return before, behind, between


@triton.jit
def padding_before(ids, padding, start, row, SPAN: tl.constexpr = 256):
    """The number of padding tokens from ``start`` up to ``row``."""
    near = tl.arange(0, SPAN)
    counted = tl.zeros([SPAN], tl.int32)
    for at in range(start, row, SPAN):
        there = at + near < row
        counted += (there & (tl.load(ids + at + near, there, 0) == padding)).to(tl.int32)
    return tl.sum(counted, 0)


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
    ROWS: tl.constexpr,
    PADDING: tl.constexpr,
):
    tile = tl.program_id(0) * ROWS
    if stamps is not None:
        if tile == 0:
            stamp_start(stamps)
    n_tokens = tl.load(counts)
    n_items = tl.load(counts + 1)
    columns = tl.arange(0, BLOCK)
    mask = columns < WIDTH

    # Values behind the last token are left from an older step: no index may come from them.
    named, sums = tl.tuple([]), tl.tuple([])
    for i in tl.static_range(ROWS):
        row = tile + i
        word = tl.where(row < n_tokens, tl.load(ids + row), 0)
        x = tl.load(words + word.to(tl.int64) * WIDTH + columns, mask, 0.0).to(tl.float32)
        if kinds is not None:
            kind = tl.where(row < n_tokens, tl.load(types + row), 0) if types is not None else 0
            x += tl.load(kinds + kind * WIDTH + columns, mask, 0.0).to(tl.float32)
        named += (word,)
        sums += (x,)

    start, behind, between = marks_around(tile, cu_seqlens, n_items, entries, SCAN, STRIDE, ROWS)
    placed = tl.tuple([])
    for i in tl.static_range(ROWS):
        row = tile + i
        live = row < n_tokens
        start = tl.where(((between >> i) & 1) == 1, row, start)
        end = behind
        for after in tl.static_range(ROWS - 1, i, -1):
            end = tl.where(((between >> after) & 1) == 1, tile + after, end)
        tl.store(row_start + row, tl.where(live, start, n_tokens))
        tl.store(row_end + row, tl.where(live, end, n_tokens))
        x = sums[i]
        if places is not None:
            place = tl.where(live, row - start, 0) + position_offset
            if PADDING:
                place -= padding_before(ids, position_offset - 1, start, tl.where(live, row, start))
                place = tl.where(named[i] == position_offset - 1, position_offset - 1, place)
            x += tl.load(places + place * WIDTH + columns, mask, 0.0).to(tl.float32)
        placed += (x,)

    w = tl.load(weight + columns, mask, 0.0).to(tl.float32) if weight is not None else None
    b = tl.load(bias + columns, mask, 0.0).to(tl.float32) if bias is not None else None
    for i in tl.static_range(ROWS):
        row, x = tile + i, placed[i]
        stored = row < n_tokens
        first = row.to(tl.int64) * WIDTH
        if weight is not None:
            x = normalised(x, mask, WIDTH, eps, False) * w
        if bias is not None:
            x += b
        if values is not None:
            tl.store(values + first + columns, x.to(values.dtype.element_ty), mask & stored)
        if fp8 is not None:
            store_fp8(fp8 + first, scale, row, columns, mask, x, stored)


def embed_norm(
    ids: torch.Tensor,
    types: torch.Tensor | None,
    cu_seqlens: torch.Tensor,
    counts: torch.Tensor,
    tables: Tables,
    *,
    return_values: bool = True,
    return_fp8: bool = False,
    stamps: torch.Tensor | None = None,
) -> Embedded:
    """The sum of each token's rows, and its layer norm if there is one.

    ids, types: int32 [tokens]; without types all are 0. cu_seqlens: int32 [items + 1], from 0 to n_tokens, of which
    n_items + 1 count. counts: int32, n_tokens and n_items. The tables are of one type. stamps: int64 [2], of which this
    kernel writes the start.
    """
    words, places, kinds = tables.words, tables.places, tables.kinds
    check_contiguous(ids=ids, types=types, cu_seqlens=cu_seqlens, words=words, places=places, kinds=kinds)
    tokens, width, entries = len(ids), words.shape[1], len(cu_seqlens)
    shape, search = row_shape(width, tokens), search_shape(entries)
    values = torch.empty(tokens, width, dtype=words.dtype, device=words.device) if return_values else None
    fp8, scale = empty_fp8(ids, width) if return_fp8 else (None, None)
    row_start, row_end = torch.empty_like(ids), torch.empty_like(ids)
    embed_norm_kernel[(tokens // shape.rows,)](
        ids,
        types,
        cu_seqlens,
        counts,
        words,
        places,
        kinds,
        tables.weight,
        tables.bias,
        values,
        fp8,
        scale,
        row_start,
        row_end,
        stamped(stamps),
        tables.eps,
        tables.position_offset,
        entries,
        SCAN=search.scan,
        STRIDE=search.stride,
        WIDTH=width,
        BLOCK=shape.block,
        ROWS=shape.rows,
        PADDING=tables.position_offset > 0,
        num_warps=shape.warps,
    )
    return Embedded(values, fp8, scale, row_start, row_end)
