"""The last row of each run: all that the last layer and the head need of a step."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from fastqps.kernels.shapes import row_shape


@triton.jit
def _last_rows(out, x, starts, counts, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    run = tl.program_id(0)
    if run >= tl.load(counts + 1):
        return
    row = tl.load(starts + run + 1).to(tl.int64) - 1
    column = tl.arange(0, BLOCK)
    values = tl.load(x + row * WIDTH + column, mask=column < WIDTH)
    tl.store(out + run.to(tl.int64) * WIDTH + column, values, mask=column < WIDTH)


def last_rows(x: torch.Tensor, starts: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """x [T, width], starts int32 [S + 1], counts int32 [≥ 2] → [S, width]; beyond ``counts[1]`` runs not written.

    Indexing with ``starts`` would read the words that an earlier step has left beyond the runs of this one.
    """
    out = x.new_empty(starts.shape[0] - 1, x.shape[1])
    width = x.shape[1]
    shape = row_shape(width)
    _last_rows[(len(out),)](out, x, starts, counts, WIDTH=width, BLOCK=shape.block, num_warps=shape.warps)
    return out
