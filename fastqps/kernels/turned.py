"""Queries and keys as the scores need them: normalised where the model does that, and turned by their position."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def load_turned(
    rows,
    positions,
    valid,
    rotary,
    norm,
    eps,
    HEAD_DIM: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """float32 [R, COLUMNS] of the heads at the pointers ``rows`` [R], zeros beyond HEAD_DIM and where not ``valid``.

    The two halves of a head are pairs, so every column is read beside its partner: the second read finds its line in
    the first level cache. ``rotary`` is float32 [positions, 2, HEAD_DIM / 2], cos and sin;
    ``norm`` float32 [HEAD_DIM] or None: a root mean square norm's weight.
    """
    half: tl.constexpr = HEAD_DIM // 2
    column = tl.arange(0, COLUMNS)
    partner = tl.where(column < half, column + half, column - half)
    inside = valid[:, None] & (column < HEAD_DIM)[None, :]
    x = tl.load(rows[:, None] + column[None, :], mask=inside, other=0.0).to(tl.float32)
    y = tl.load(rows[:, None] + partner[None, :], mask=inside, other=0.0).to(tl.float32)
    if norm is not None:
        scale = tl.rsqrt(tl.sum(x * x, axis=1) / HEAD_DIM + eps)[:, None]
        x *= scale * tl.load(norm + column, mask=column < HEAD_DIM, other=0.0)[None, :]
        y *= scale * tl.load(norm + partner, mask=column < HEAD_DIM, other=0.0)[None, :]
    angle = rotary + positions[:, None] * HEAD_DIM + tl.where(column < half, column, column - half)[None, :]
    cos = tl.load(angle, mask=inside, other=0.0)
    sin = tl.load(angle + half, mask=inside, other=0.0)
    return x * cos + y * tl.where(column < half, -sin, sin)
