"""Attention inside each item of a packed batch, tile by tile of its rows, whatever items begin or end in a tile."""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

from fastqps.kernels.layers import Attention
from fastqps.kernels.results import check_contiguous
from fastqps.kernels.shapes import AttentionShape, attention_shape, next_power_of_2
from fastqps.kernels.vendor import register_limit

_LOWEST = tl.constexpr(-1e30)  # finite, so that a row whose keys are all masked so far stays a number


@triton.jit
def turned(x, other, rotary, places, columns, mask, HALF: tl.constexpr):
    """Both halves of rows [rows, HALF] of queries or keys, turned by the angles of their places."""
    at = places[:, None] * (2 * HALF) + columns[None, :]
    cos = tl.load(rotary + at, mask, 0.0)
    sin = tl.load(rotary + at + HALF, mask, 0.0)
    a, b = x.to(tl.float32), other.to(tl.float32)
    return (a * cos - b * sin).to(x.dtype), (b * cos + a * sin).to(x.dtype)


@triton.jit
def products(
    x,
    tables,
    number,
    first,
    REACH: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
    DISTANCES: tl.constexpr,
):
    """x [rows, BLOCK] times the vectors of DISTANCES distances, from ``first`` on, in the table of that number."""
    STRIDE: tl.constexpr = 2 * REACH + 16
    row = tl.arange(0, BLOCK)
    column = REACH + first + tl.arange(0, DISTANCES)
    mask = (row < SIZE)[:, None] & ((column >= 0) & (column < STRIDE))[None, :]
    table = tl.load(tables + (number * SIZE + row[:, None]) * STRIDE + column[None, :], mask, 0.0)
    return tl.dot(x, table, input_precision="ieee")


@triton.jit
def head_normed(x, other, weight, columns, eps, HALF: tl.constexpr):
    """Both halves of rows [rows, HALF] of queries or keys, zero where masked, over each row's root mean square."""
    a, b = x.to(tl.float32), other.to(tl.float32)
    shrink = tl.rsqrt(tl.sum(a * a + b * b, 1) / (2 * HALF) + eps)[:, None]
    first = tl.load(weight + columns, columns < HALF, 0.0)[None, :]
    second = tl.load(weight + HALF + columns, columns < HALF, 0.0)[None, :]
    return a * shrink * first, b * shrink * second


@triton.jit
def prepared(x, other, norm, rotary, places, columns, mask, eps, HALF: tl.constexpr):
    """Both halves of rows of queries or keys, normalised where there is a norm, and turned."""
    TYPE: tl.constexpr = x.dtype
    if norm is not None:
        x, other = head_normed(x, other, norm, columns, eps, HALF)
    x, other = turned(x, other, rotary, places, columns, mask, HALF)
    return x.to(TYPE), other.to(TYPE)


@triton.jit
def softened(scores, highest, weights, total, scale):
    """One block's scores [rows, keys] into a softmax of powers of two: its shares, and what is kept of those before."""
    before = highest
    highest = tl.maximum(highest, tl.max(scores, 1))
    shares = tl.exp2(scores * scale - (highest * scale)[:, None])
    kept = tl.exp2((before - highest) * scale)
    return shares, highest, weights * kept + tl.sum(shares, 1), total * kept[:, None]


@triton.jit(do_not_specialize=["rows_all"])
def tile_attention_kernel(
    qkv,
    row_start,
    row_end,
    rotary,
    bias,
    relative,
    q_norm,
    k_norm,
    positions,
    opening,
    out,
    rows_all,
    scale,
    bias_scale,
    eps,
    REACH: tl.constexpr,
    WINDOW: tl.constexpr,
    CAUSAL: tl.constexpr,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
    HALF_BLOCK: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
    DISTANCES: tl.constexpr,
    OPENING: tl.constexpr,
):
    STRIDE: tl.constexpr = (HEADS + 2 * KV_HEADS) * SIZE
    HALF: tl.constexpr = SIZE // 2
    head = tl.program_id(0)
    tile = tl.program_id(1) * QUERIES
    # Both are n_tokens in padding, so a tile that holds only padding has no keys.
    begin = tl.load(row_start + tile)
    end = tl.load(row_end + tl.minimum(tile + QUERIES, rows_all) - 1)
    if WINDOW > 0:
        begin, end = tl.maximum(begin, tile - WINDOW), tl.minimum(end, tile + QUERIES + WINDOW)
    if CAUSAL:
        end = tl.minimum(end, tile + QUERIES)
    columns = tl.arange(0, BLOCK)
    halves = tl.arange(0, HALF_BLOCK)
    # All items of the tile in one pass. A value that is not finite reaches the rows of the other items, too, since a
    # weight of 0 times it is NaN. It shows in the sums: then each item has a pass of its own, over the same blocks of
    # keys, so that the others' numbers are the same to the bit.
    start, stop, alone = begin, end, begin < 0
    while start < end:
        rows = tile + tl.arange(0, QUERIES)
        inside = rows < rows_all
        first = tl.load(row_start + rows, inside, 0)
        last = tl.load(row_end + rows, inside, 0)
        live = first < last
        sees_from, sees_to = first, last
        if WINDOW > 0:
            sees_from, sees_to = tl.maximum(first, rows - WINDOW), tl.minimum(last, rows + WINDOW + 1)
        if CAUSAL:
            sees_to = tl.minimum(sees_to, rows + 1)

        place = tl.where(live, rows - first, 0)
        if OPENING > 0:
            place = tl.load(positions + rows, live, 0)
        queries = qkv + head * SIZE + rows[:, None] * STRIDE
        if rotary is None:
            q = tl.load(queries + columns[None, :], inside[:, None] & (columns < SIZE)[None, :], 0.0)
        else:
            mask = inside[:, None] & (halves < HALF)[None, :]
            q = tl.load(queries + halves[None, :], mask, 0.0)
            q_other = tl.load(queries + HALF + halves[None, :], mask, 0.0)
            q, q_other = prepared(q, q_other, q_norm, rotary, place, halves, mask, eps, HALF)

        highest = tl.full([QUERIES], _LOWEST, tl.float32)
        weights = tl.zeros([QUERIES], tl.float32)
        total = tl.zeros([QUERIES, BLOCK], tl.float32)
        if OPENING > 0:
            opened = tl.where(live, place - (rows - first), 0)  # keys in front of the row's item
            of_head = opening + head // (HEADS // KV_HEADS) * (OPENING * SIZE)
            for at in range(0, tl.max(opened, 0), KEYS):
                keys = at + tl.arange(0, KEYS)
                from_key = of_head + keys[:, None] * SIZE
                real = (keys < OPENING)[:, None]
                if rotary is None:
                    k = tl.load(from_key + columns[None, :], real & (columns < SIZE)[None, :], 0.0)
                    scores = tl.dot(q, tl.trans(k), input_precision="ieee")
                else:
                    key_mask = real & (halves < HALF)[None, :]
                    k = tl.load(from_key + halves[None, :], key_mask, 0.0)
                    k_other = tl.load(from_key + HALF + halves[None, :], key_mask, 0.0)
                    scores = tl.dot(q, tl.trans(k), input_precision="ieee")
                    scores = tl.dot(q_other, tl.trans(k_other), scores, input_precision="ieee")
                seen = keys[None, :] < opened[:, None]
                if WINDOW > 0:
                    seen = seen & (keys[None, :] >= place[:, None] - WINDOW)
                scores = tl.where(seen, scores, float("-inf"))
                shares, highest, weights, total = softened(scores, highest, weights, total, scale)
                v = tl.load(
                    from_key + KV_HEADS * OPENING * SIZE + columns[None, :], real & (columns < SIZE)[None, :], 0.0
                )
                total = tl.dot(shares.to(v.dtype), v, total, input_precision="ieee")
        for at in range(begin + (start - begin) // KEYS * KEYS, stop, KEYS):
            keys = at + tl.arange(0, KEYS)
            real = (keys >= start) & (keys < stop)
            from_key = qkv + (HEADS + head // (HEADS // KV_HEADS)) * SIZE + keys[:, None] * STRIDE
            if rotary is None:
                k = tl.load(from_key + columns[None, :], real[:, None] & (columns < SIZE)[None, :], 0.0)
                scores = tl.dot(q, tl.trans(k), input_precision="ieee")
                if relative is not None:
                    first_distance = tile - at - (KEYS - 1)  # of the first row and the last key
                    column = rows[:, None] - keys[None, :] - first_distance
                    of_row = products(q, relative, head, first_distance, REACH, SIZE, BLOCK, DISTANCES)
                    scores += tl.gather(of_row, column, 1)
                    of_key = products(k, relative, HEADS + head, first_distance, REACH, SIZE, BLOCK, DISTANCES)
                    scores += tl.trans(tl.gather(of_key, tl.trans(column), 1))
            else:
                key_mask = real[:, None] & (halves < HALF)[None, :]
                k = tl.load(from_key + halves[None, :], key_mask, 0.0)
                k_other = tl.load(from_key + HALF + halves[None, :], key_mask, 0.0)
                places = tl.where(real, keys - tl.load(row_start + keys, real, 0), 0)
                if OPENING > 0:
                    places = tl.load(positions + keys, real, 0)
                k, k_other = prepared(k, k_other, k_norm, rotary, places, halves, key_mask, eps, HALF)
                scores = tl.dot(q, tl.trans(k), input_precision="ieee")
                scores = tl.dot(q_other, tl.trans(k_other), scores, input_precision="ieee")
            seen = (keys[None, :] >= sees_from[:, None]) & (keys[None, :] < sees_to[:, None])
            if bias is not None:
                distance = rows[:, None] - keys[None, :]
                added = tl.load(bias + head * (2 * REACH + 1) + REACH + distance, seen, 0.0)
                scores += added * bias_scale
            scores = tl.where(seen, scores, float("-inf"))
            shares, highest, weights, total = softened(scores, highest, weights, total, scale)
            v = tl.load(
                from_key + KV_HEADS * SIZE + columns[None, :],
                real[:, None] & (columns < SIZE)[None, :],
                0.0,
            )
            total = tl.dot(shares.to(v.dtype), v, total, input_precision="ieee")

        result = total * (1.0 / tl.where(live, weights, 1.0))[:, None]
        target = out + rows[:, None] * (HEADS * SIZE) + head * SIZE + columns[None, :]
        of_pass = live & (first < stop) & (last > start)
        tl.store(target, result.to(out.dtype.element_ty), of_pass[:, None] & (columns < SIZE)[None, :])
        sums = tl.sum(tl.sum(result, 1), 0)
        again = (sums - sums != 0) & ~alone
        alone = alone | again
        start = tl.where(again, begin, stop)
        stop = tl.minimum(tl.load(row_end + start, start < end, 0), end)
        head = tl.minimum(head, HEADS)
        tile = tl.minimum(tile, rows_all)  # the same, but unknown to the compiler: nothing is kept for another pass


def tile_attention(
    qkv: torch.Tensor,
    row_start: torch.Tensor,
    row_end: torch.Tensor,
    attention: Attention,
    *,
    longest: int = 0,
    positions: torch.Tensor | None = None,
    shape: AttentionShape | None = None,
) -> torch.Tensor:
    """qkv [tokens, (heads + 2 · kv_heads) · size] → [tokens, heads · size]; every row sees its item's rows.

    row_start, row_end: as ``embed_norm`` gives them.
    ``positions``, int32 [tokens], are read where there is an opening: items begin there, and see what is before them.
    ``longest``, the most rows of an item, is for the operation in plain torch: the kernel reads it from ``row_end``.
    ``shape`` is for measuring others than the rule's.
    """
    check_contiguous(qkv=qkv, row_start=row_start, row_end=row_end, positions=positions)
    a, tokens, size = attention, len(qkv), attention.size(qkv)
    if qkv.numel() >= 1 << 31:
        raise ValueError(f"queries, keys and values {list(qkv.shape)} have more than 2³¹ numbers")
    shape = shape or attention_shape(size, qkv.dtype, a.rotary is not None, a.relative is not None)
    reach = 0 if a.bias is None else a.bias.shape[1] // 2
    if a.relative is not None:
        reach = (a.relative.shape[3] - 16) // 2
    out = torch.empty(tokens, a.heads * size, dtype=qkv.dtype, device=qkv.device)
    tile_attention_kernel[(a.heads, triton.cdiv(tokens, shape.queries))](
        qkv,
        row_start,
        row_end,
        a.rotary,
        a.bias,
        a.relative,
        a.q_norm,
        a.k_norm,
        positions,
        a.opening,
        out,
        tokens,
        math.log2(math.e) / math.sqrt(size),  # the softmax is one of powers of two
        math.sqrt(size),  # scores are scaled later
        a.eps,
        REACH=reach,
        WINDOW=a.window,
        CAUSAL=a.causal,
        HEADS=a.heads,
        KV_HEADS=a.kv_heads,
        SIZE=size,
        BLOCK=shape.block,
        HALF_BLOCK=shape.half_block,
        QUERIES=shape.queries,
        KEYS=shape.keys,
        DISTANCES=next_power_of_2(shape.queries + shape.keys),
        OPENING=0 if a.opening is None else a.opening.shape[2],
        num_warps=shape.warps,
        num_stages=shape.stages,
        **register_limit(shape.registers),
    )
    return out
