"""Attention of a decoder's rows over the prefix and their own cache slot, prompts and running sequences alike."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from fastqps.kernels.shapes import slot_attention_shape
from fastqps.kernels.turned import load_turned


@triton.jit
def _attend_span(
    query,
    most,
    total,
    sums,
    keys,
    values,
    n_keys,
    seen,
    scale,
    HEAD_DIM: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCK_KEYS: tl.constexpr,
):
    """Goes on with a softmax over ``n_keys`` more keys, of which query i sees the first ``seen[i]``."""
    column = tl.arange(0, COLUMNS)
    for start in range(0, n_keys, BLOCK_KEYS):
        at = start + tl.arange(0, BLOCK_KEYS)
        inside = (at < n_keys)[:, None] & (column < HEAD_DIM)[None, :]
        place = at[:, None] * HEAD_DIM + column[None, :]
        key = tl.load(keys + place, mask=inside, other=0.0)
        value = tl.load(values + place, mask=inside, other=0.0)
        scores = tl.dot(query, tl.trans(key), input_precision="ieee") * scale
        scores = tl.where(at[None, :] < seen[:, None], scores, float("-inf"))
        more = tl.maximum(most, tl.max(scores, axis=1))
        weights = tl.exp2(scores - more[:, None])
        shrink = tl.exp2(most - more)
        total = total * shrink + tl.sum(weights, axis=1)
        sums = tl.dot(weights.to(value.dtype), value, sums * shrink[:, None], input_precision="ieee")
        most = more
    return most, total, sums


@triton.jit
def _slot_attention(
    out,
    qkv,
    cache,
    prefix,
    rotary,
    q_norm,
    starts,
    positions,
    kv_slots,
    counts,
    prefix_len,
    part_stride,
    slot_stride,
    head_stride,
    prefix_part_stride,
    eps,
    scale,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    COLUMNS: tl.constexpr,
    LAST_ROWS: tl.constexpr,
    ROWS: tl.constexpr,
    QUERIES: tl.constexpr,
    BLOCK_KEYS: tl.constexpr,
):
    index, kv_head = tl.program_id(0), tl.program_id(1)
    n_rows = tl.load(counts)
    if LAST_ROWS:
        if index >= tl.load(counts + 1):
            return
        first = tl.load(starts + index + 1) - 1
    else:
        if index >= n_rows:
            return
        first = index
    slot, position = tl.load(kv_slots + first), tl.load(positions + first)
    own = position - prefix_len

    # Rows of one run share the tile's matrix products and their reads of the slot: the program of the first row of
    # each ROWS of a slot's places takes them all, those of the others have nothing to do.
    end = first + 1
    if ROWS > 1:
        before = tl.load(kv_slots + tl.maximum(first - 1, 0))
        if (first > 0) & (before == slot) & (own % ROWS != 0):
            return
        end = tl.minimum(first + ROWS - own % ROWS, n_rows)
    group: tl.constexpr = HEADS // KV_HEADS
    at = tl.arange(0, QUERIES)
    row, head = first + at // group, kv_head * group + at % group
    valid = row < end
    valid = valid & (tl.load(kv_slots + row, mask=valid, other=-1) == slot)
    ahead = tl.where(valid, row - first, 0)

    query_at = qkv + (row * (HEADS + 2 * KV_HEADS) + head).to(tl.int64) * HEAD_DIM
    query = load_turned(query_at, position + ahead, valid, rotary, q_norm, eps, HEAD_DIM, COLUMNS)
    query = query.to(cache.dtype.element_ty)
    most = tl.full([QUERIES], float("-inf"), tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    sums = tl.zeros([QUERIES, COLUMNS], tl.float32)
    if prefix is not None:
        keys = prefix + kv_head * prefix_len * HEAD_DIM
        most, total, sums = _attend_span(
            query, most, total, sums, keys, keys + prefix_part_stride, prefix_len,
            tl.zeros([QUERIES], tl.int32) + prefix_len, scale, HEAD_DIM, COLUMNS, BLOCK_KEYS,
        )  # fmt: skip
    keys = cache + slot.to(tl.int64) * slot_stride + kv_head * head_stride
    seen = own + 1 + ahead
    most, total, sums = _attend_span(
        query, most, total, sums, keys, keys + part_stride, tl.max(seen, axis=0),
        seen, scale, HEAD_DIM, COLUMNS, BLOCK_KEYS,
    )  # fmt: skip

    column = tl.arange(0, COLUMNS)
    to = index + at // group
    place = (to * HEADS + head).to(tl.int64)[:, None] * HEAD_DIM + column[None, :]
    inside = valid[:, None] & (column < HEAD_DIM)[None, :]
    tl.store(out + place, (sums / total[:, None]).to(out.dtype.element_ty), mask=inside)


def slot_attention(
    qkv: torch.Tensor,
    cache: torch.Tensor,
    prefix: torch.Tensor,
    rotary: torch.Tensor,
    q_norm: torch.Tensor | None,
    eps: float,
    starts: torch.Tensor,
    positions: torch.Tensor,
    kv_slots: torch.Tensor,
    counts: torch.Tensor,
    *,
    heads: int,
    last_rows: bool,
) -> torch.Tensor:
    """Every row attends to the prefix and to its own slot up to itself; ``rope_kv`` has written their keys and values.

    qkv [T, (heads + 2 kv_heads) · head_dim], queries unturned; cache [2, slots, kv_heads, max_len, head_dim] and prefix
    [2, kv_heads, prefix_len, head_dim] of one layer, contiguous; rotary float32 [positions, 2, head_dim / 2]; q_norm
    float32 [head_dim] or None; starts int32 [S + 1]; positions, kv_slots int32 [T]; counts int32 [≥ 2]: rows and runs.
    → [T, heads · head_dim], or with ``last_rows`` [S, heads · head_dim] of each run's last row. What lies beyond
    ``counts`` is not written.
    """
    _, _, kv_heads, _, head_dim = cache.shape
    prefix_len = prefix.shape[2]
    n = len(starts) - 1 if last_rows else len(qkv)
    out = qkv.new_empty(n, heads * head_dim)
    shape = slot_attention_shape(heads // kv_heads, head_dim, last_rows)
    _slot_attention[(n, kv_heads)](
        out,
        qkv,
        cache,
        prefix if prefix_len else None,
        rotary,
        q_norm,
        starts,
        positions,
        kv_slots,
        counts,
        prefix_len,
        *cache.stride()[:3],
        prefix.stride(0),
        eps,
        head_dim**-0.5 * 1.4426950408889634,  # weights are powers of two
        HEADS=heads,
        KV_HEADS=kv_heads,
        HEAD_DIM=head_dim,
        COLUMNS=shape.columns,
        LAST_ROWS=last_rows,
        ROWS=shape.rows,
        QUERIES=shape.queries,
        BLOCK_KEYS=shape.keys,
        num_warps=shape.warps,
        num_stages=shape.stages,
    )
    return out
