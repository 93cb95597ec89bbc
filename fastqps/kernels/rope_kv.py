"""Queries, keys and values of a step's rows to where attention reads them: keys and values into their cache slots."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from fastqps.kernels.layers import Attention
from fastqps.kernels.shapes import rope_kv_shape

_LOG2_E = 1.4426950408889634


@triton.jit
def _rope_kv(
    queries,
    cache,
    qkv,
    rotary,
    q_norm,
    k_norm,
    positions,
    kv_slots,
    counts,
    prefix_len,
    part_stride,
    slot_stride,
    head_stride,
    eps,
    scale,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    of_row: tl.constexpr = HEADS + 2 * KV_HEADS
    first, rows = tl.program_id(0) * BLOCK, tl.load(counts)
    if first >= rows * of_row:
        return
    at = first + tl.arange(0, BLOCK)
    row, head = at // of_row, at % of_row
    valid = row < rows
    position = tl.load(positions + row, mask=valid, other=0)
    slot = tl.load(kv_slots + row, mask=valid, other=0).to(tl.int64)

    # A lane holds both numbers of a pair: the same place of a head's two halves.
    half: tl.constexpr = HEAD_DIM // 2
    column = tl.arange(0, COLUMNS)[None, :]
    inside = valid[:, None] & (column < half)
    pair = qkv + at.to(tl.int64)[:, None] * HEAD_DIM + column
    a = tl.load(pair, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(pair + half, mask=inside, other=0.0).to(tl.float32)
    is_query, is_value = head < HEADS, head >= HEADS + KV_HEADS
    if q_norm is not None:
        mean = tl.sum(a * a + b * b, axis=1) / HEAD_DIM
        shrink = tl.where(is_value, 1.0, tl.rsqrt(mean + eps))[:, None]
        weight = column + tl.zeros([BLOCK, COLUMNS], tl.int32)
        of_query, of_key = inside & is_query[:, None], inside & (~is_query & ~is_value)[:, None]
        for_query = tl.load(q_norm + weight, mask=of_query, other=1.0)
        a *= shrink * for_query * tl.load(k_norm + weight, mask=of_key, other=1.0)
        for_query = tl.load(q_norm + half + weight, mask=of_query, other=1.0)
        b *= shrink * for_query * tl.load(k_norm + half + weight, mask=of_key, other=1.0)
    if rotary is not None:
        angle = rotary + position[:, None] * HEAD_DIM + column
        turns = inside & ~is_value[:, None]
        cos = tl.load(angle, mask=turns, other=1.0)
        sin = tl.load(angle + half, mask=turns, other=0.0)
        first_half, second_half = a * cos - b * sin, b * cos + a * sin
    else:
        first_half, second_half = a, b

    to_query = queries + (row * HEADS + head).to(tl.int64)[:, None] * HEAD_DIM + column
    kept = inside & is_query[:, None]
    tl.store(to_query, (first_half * scale).to(queries.dtype.element_ty), mask=kept)
    tl.store(to_query + half, (second_half * scale).to(queries.dtype.element_ty), mask=kept)
    part = tl.where(is_value, part_stride, 0).to(tl.int64)
    kv_head = head - tl.where(is_value, HEADS + KV_HEADS, HEADS)
    place = part + slot * slot_stride + kv_head * head_stride + (position - prefix_len) * HEAD_DIM
    kept = inside & ~is_query[:, None]
    tl.store(cache + place[:, None] + column, first_half.to(cache.dtype.element_ty), mask=kept)
    tl.store(cache + place[:, None] + column + half, second_half.to(cache.dtype.element_ty), mask=kept)


def rope_kv(
    qkv: torch.Tensor,
    cache: torch.Tensor,
    attention: Attention,
    positions: torch.Tensor,
    kv_slots: torch.Tensor,
    counts: torch.Tensor,
    *,
    prefix_len: int,
) -> torch.Tensor:
    """Keeps keys and values of ``counts[0]`` rows in one layer's ``cache``, at their position less the prefix's length.

    qkv [T, (heads + 2 kv_heads) · head_dim]; cache [2, slots, kv_heads, max_len, head_dim]; positions, kv_slots int32
    [T]; counts int32 [1 or more]. → the queries [T, heads · head_dim] as ``slot_attention`` reads them: turned
    where there are angles, and scaled so that weights are powers of two. It could turn them itself, but in tiles that
    are padded to the size of a matrix product, which takes more instructions than writing them here.
    """
    heads, kv_heads, head_dim, rows = attention.heads, attention.kv_heads, cache.shape[4], len(qkv)
    queries = qkv.new_empty(rows, heads * head_dim)
    shape = rope_kv_shape(head_dim)
    _rope_kv[(triton.cdiv(rows * (heads + 2 * kv_heads), shape.rows),)](
        queries,
        cache,
        qkv,
        attention.rotary,
        attention.q_norm,
        attention.k_norm,
        positions,
        kv_slots,
        counts,
        prefix_len,
        *cache.stride()[:3],
        attention.eps,
        head_dim**-0.5 * _LOG2_E,
        HEADS=heads,
        KV_HEADS=kv_heads,
        HEAD_DIM=head_dim,
        BLOCK=shape.rows,
        COLUMNS=shape.columns,
        num_warps=shape.warps,
    )
    return queries
