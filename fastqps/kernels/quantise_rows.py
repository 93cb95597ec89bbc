"""Rows to float8 with a scale each, where no kernel before could do it on the way."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from fastqps.kernels.fp8 import empty_fp8, store_fp8
from fastqps.kernels.results import check_contiguous
from fastqps.kernels.shapes import row_shape


@triton.jit
def quantise_rows_kernel(x, fp8, scale, count, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    first = row.to(tl.int64) * WIDTH
    columns = tl.arange(0, BLOCK)
    mask = columns < WIDTH
    values = tl.load(x + first + columns, mask, 0.0).to(tl.float32)
    stored = row < tl.load(count) if count is not None else True
    store_fp8(fp8 + first, scale, row, columns, mask, values, stored)


def quantise_rows(x: torch.Tensor, count: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """x [rows, width] → float8 [rows, width] and float32 [rows, 1] by which it is to be multiplied."""
    check_contiguous(x=x)
    rows, width = x.shape
    shape = row_shape(width)
    fp8, scale = empty_fp8(x, width)
    quantise_rows_kernel[(rows,)](x, fp8, scale, count, WIDTH=width, BLOCK=shape.block, num_warps=shape.warps)
    return fp8, scale
