"""Writes the keys and values of a step's rows into their cache slots; keys are normalised and turned on the way."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from fastqps.kernels.shapes import rope_kv_shape
from fastqps.kernels.turned import load_turned


@triton.jit
def _rope_kv(
    qkv,
    cache,
    rotary,
    k_norm,
    positions,
    kv_slots,
    counts,
    prefix_len,
    part_stride,
    slot_stride,
    head_stride,
    eps,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    first, rows = tl.program_id(0) * BLOCK, tl.load(counts)
    if first >= rows * KV_HEADS:
        return
    at = first + tl.arange(0, BLOCK)
    row, head = at // KV_HEADS, at % KV_HEADS
    valid = row < rows
    position = tl.load(positions + row, mask=valid, other=0)
    slot = tl.load(kv_slots + row, mask=valid, other=0).to(tl.int64)
    key = qkv + (row * (HEADS + 2 * KV_HEADS) + HEADS + head).to(tl.int64) * HEAD_DIM
    turned = load_turned(key, position, valid, rotary, k_norm, eps, HEAD_DIM, COLUMNS)
    column = tl.arange(0, COLUMNS)[None, :]
    inside = valid[:, None] & (column < HEAD_DIM)
    value = tl.load(key[:, None] + KV_HEADS * HEAD_DIM + column, mask=inside)
    to = cache + (slot * slot_stride + head * head_stride + (position - prefix_len) * HEAD_DIM)[:, None] + column
    tl.store(to, turned.to(cache.dtype.element_ty), mask=inside)
    tl.store(to + part_stride, value, mask=inside)


def rope_kv(
    qkv: torch.Tensor,
    cache: torch.Tensor,
    rotary: torch.Tensor,
    k_norm: torch.Tensor | None,
    eps: float,
    positions: torch.Tensor,
    kv_slots: torch.Tensor,
    counts: torch.Tensor,
    *,
    heads: int,
    prefix_len: int,
) -> None:
    """Keeps keys and values of ``counts[0]`` rows in one layer's ``cache``, at their position less the prefix's length.

    qkv [T, (heads + 2 kv_heads) · head_dim]; cache [2, slots, kv_heads, max_len, head_dim]; rotary float32 [positions,
    2, head_dim / 2]; k_norm float32 [head_dim] or None; positions, kv_slots int32 [T]; counts int32 [≥ 1]. Queries stay
    as they are: ``slot_attention`` turns each when it reads it, which costs less than writing them all once more.
    """
    _, _, kv_heads, _, head_dim = cache.shape
    shape = rope_kv_shape(head_dim)
    _rope_kv[(triton.cdiv(len(qkv) * kv_heads, shape.rows),)](
        qkv,
        cache,
        rotary,
        k_norm,
        positions,
        kv_slots,
        counts,
        prefix_len,
        *cache.stride()[:3],
        eps,
        HEADS=heads,
        KV_HEADS=kv_heads,
        HEAD_DIM=head_dim,
        COLUMNS=shape.columns,
        BLOCK=shape.rows,
        num_warps=shape.warps,
    )
