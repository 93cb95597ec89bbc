"""Attention of a decoder's rows over the prefix and their own cache slot, prompts and running sequences alike."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from fastqps.kernels.shapes import slot_attention_shape

_LOWEST = tl.constexpr(-1e30)  # finite, so that a row that sees no key of a block stays a number
_LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _attend_span(
    query,
    score_max,
    total,
    sums,
    keys,
    values,
    n_keys,
    seen,
    since,
    cap,
    HEAD_DIM: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCK_KEYS: tl.constexpr,
):
    """Goes on with a softmax over ``n_keys`` more keys, of which query i sees the first ``seen[i]``.

    Where there is a ``since``, it sees none in front of ``since[i]``. Scores are powers of two, and so is ``cap``.
    """
    column = tl.arange(0, COLUMNS)[None, :]
    begin = 0
    if since is not None:
        begin = tl.maximum(tl.min(since, axis=0), 0) // BLOCK_KEYS * BLOCK_KEYS
    for start in range(begin, n_keys, BLOCK_KEYS):
        at = start + tl.arange(0, BLOCK_KEYS)
        inside = (at < n_keys)[:, None]
        if COLUMNS > HEAD_DIM:
            inside = inside & (column < HEAD_DIM)
        place = at[:, None] * HEAD_DIM + column
        key = tl.load(keys + place, mask=inside, other=0.0)
        value = tl.load(values + place, mask=inside, other=0.0)
        scores = tl.dot(query, tl.trans(key), input_precision="ieee")
        if cap is not None:
            scores = cap * (1 - 2 / (1 + tl.exp2(scores * (2 * _LOG2_E / cap))))  # the hyperbolic tangent
        visible = at[None, :] < seen[:, None]
        if since is not None:
            visible = visible & (at[None, :] >= since[:, None])
        scores = tl.where(visible, scores, float("-inf"))
        new_max = tl.maximum(score_max, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_max[:, None])
        shrink = tl.exp2(score_max - new_max)
        total = total * shrink + tl.sum(weights, axis=1)
        sums = tl.dot(weights.to(value.dtype), value, sums * shrink[:, None], input_precision="ieee")
        score_max = new_max
    return score_max, total, sums


@triton.jit
def _slot_attention(
    out,
    queries,
    cache,
    prefix,
    starts,
    positions,
    kv_slots,
    counts,
    prefix_len,
    part_stride,
    slot_stride,
    head_stride,
    prefix_part_stride,
    cap,
    WINDOW: tl.constexpr,
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
    if ROWS > 1:
        valid = valid & (tl.load(kv_slots + row, mask=valid, other=-1) == slot)
    seen = own + 1 + tl.where(valid, row - first, 0)
    since = seen - 1 - WINDOW if WINDOW is not None else None
    since_shared = since + prefix_len if WINDOW is not None else None

    column = tl.arange(0, COLUMNS)[None, :]
    inside = valid[:, None] & (column < HEAD_DIM)
    at_query = (row * HEADS + head).to(tl.int64)[:, None] * HEAD_DIM + column
    query = tl.load(queries + at_query, mask=inside, other=0.0)
    score_max = tl.full([QUERIES], _LOWEST, tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    sums = tl.zeros([QUERIES, COLUMNS], tl.float32)
    if prefix is not None:
        keys = prefix + kv_head * prefix_len * HEAD_DIM
        all_seen = tl.zeros([QUERIES], tl.int32) + prefix_len
        score_max, total, sums = _attend_span(
            query, score_max, total, sums, keys, keys + prefix_part_stride, prefix_len, all_seen, since_shared, cap,
            HEAD_DIM, COLUMNS, BLOCK_KEYS,
        )  # fmt: skip
    keys = cache + slot.to(tl.int64) * slot_stride + kv_head * head_stride
    score_max, total, sums = _attend_span(
        query,
        score_max,
        total,
        sums,
        keys,
        keys + part_stride,
        tl.max(seen, axis=0),
        seen,
        since,
        cap,
        HEAD_DIM,
        COLUMNS,
        BLOCK_KEYS,
    )
    to = out + ((index + at // group) * HEADS + head).to(tl.int64)[:, None] * HEAD_DIM + column
    tl.store(to, (sums * (1.0 / total)[:, None]).to(out.dtype.element_ty), mask=inside)


def slot_attention(
    queries: torch.Tensor,
    cache: torch.Tensor,
    prefix: torch.Tensor,
    starts: torch.Tensor,
    positions: torch.Tensor,
    kv_slots: torch.Tensor,
    counts: torch.Tensor,
    *,
    last_rows: bool,
    window: int | None = None,
    cap: float | None = None,
) -> torch.Tensor:
    """Every row attends to the prefix and to its own slot up to itself; ``rope_kv`` comes before.

    queries [T, heads · head_dim], what ``rope_kv`` gave; cache [2, slots, kv_heads, max_len, head_dim] and prefix [2,
    kv_heads, prefix_len, head_dim] of one layer; starts int32 [S + 1]; positions, kv_slots int32 [T]; counts int32 [2
    or more]: rows and runs. → [T, heads · head_dim], or with ``last_rows`` [S, heads · head_dim] of each run's last
    row. What lies beyond ``counts`` is not written. ``window`` and ``cap``: as of ``Attention``.
    """
    _, _, kv_heads, _, head_dim = cache.shape
    prefix_len, width = prefix.shape[2], queries.shape[1]
    heads = width // head_dim
    n = len(starts) - 1 if last_rows else len(queries)
    out = queries.new_empty(n, width)
    shape = slot_attention_shape(heads // kv_heads, head_dim, queries.dtype, last_rows)
    _slot_attention[(n, kv_heads)](
        out,
        queries,
        cache,
        prefix if prefix_len else None,
        starts,
        positions,
        kv_slots,
        counts,
        prefix_len,
        *cache.stride()[:3],
        prefix.stride(0),
        None if cap is None else cap * _LOG2_E.value,
        WINDOW=window,
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
