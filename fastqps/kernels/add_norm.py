"""Residual sum and norm of each row, in one pass: encoders' layer norms and decoders' root mean square norms."""

from __future__ import annotations

from typing import Literal

import torch
import triton
import triton.language as tl

from fastqps.kernels.fp8 import empty_fp8, store_fp8
from fastqps.kernels.results import Normed, check_contiguous
from fastqps.kernels.shapes import row_shape


@triton.jit
def normalised(x, mask, width, eps, RMS: tl.constexpr):
    """One row, zero where masked, over its root mean square; from its mean unless RMS."""
    if not RMS:
        x = tl.where(mask, x - tl.sum(x, 0) / width, 0.0)
    return x * tl.rsqrt(tl.sum(x * x, 0) / width + eps)


@triton.jit
def add_norm_kernel(
    x,
    residual,
    weight,
    bias,
    total,
    values,
    fp8,
    scale,
    count,
    eps,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    RMS: tl.constexpr,
):
    tile = tl.program_id(0) * ROWS
    columns = tl.arange(0, BLOCK)
    mask = columns < WIDTH
    sums = tl.tuple([])
    for i in tl.static_range(ROWS):
        first = (tile + i).to(tl.int64) * WIDTH
        sum_of_row = tl.load(x + first + columns, mask, 0.0).to(tl.float32)
        if residual is not None:
            sum_of_row += tl.load(residual + first + columns, mask, 0.0).to(tl.float32)
        sums += (sum_of_row,)
    w = tl.load(weight + columns, mask, 0.0).to(tl.float32)
    b = tl.load(bias + columns, mask, 0.0).to(tl.float32) if bias is not None else None
    stop = tl.load(count) if count is not None else None
    for i in tl.static_range(ROWS):
        row = tile + i
        first = row.to(tl.int64) * WIDTH
        sum_of_row = sums[i]
        stored = row < stop if count is not None else True
        if total is not None:
            rounded = sum_of_row.to(total.dtype.element_ty)
            tl.store(total + first + columns, rounded, mask & stored)
            sum_of_row = rounded.to(tl.float32)
        out = normalised(sum_of_row, mask, WIDTH, eps, RMS) * w
        if bias is not None:
            out += b
        if values is not None:
            tl.store(values + first + columns, out.to(values.dtype.element_ty), mask & stored)
        if fp8 is not None:
            store_fp8(fp8 + first, scale, row, columns, mask, out, stored)


def add_norm(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    eps: float,
    kind: Literal["layer", "rms"],
    *,
    residual: torch.Tensor | None = None,
    count: torch.Tensor | None = None,
    return_sum: bool = False,
    return_values: bool = True,
    return_fp8: bool = False,
) -> Normed:
    """norm(x + residual) · weight + bias for x, residual [rows, width], weight and bias [width] of any type.

    Where the sum is wanted, the norm is that of the sum as rounded to the model's type: what a residual stream holds.
    """
    check_contiguous(x=x, residual=residual, weight=weight, bias=bias)
    rows, width = x.shape
    shape = row_shape(width, rows)
    total = torch.empty_like(x) if return_sum else None
    values = torch.empty_like(x) if return_values else None
    fp8, scale = empty_fp8(x, width) if return_fp8 else (None, None)
    add_norm_kernel[(rows // shape.rows,)](
        x,
        residual,
        weight,
        bias,
        total,
        values,
        fp8,
        scale,
        count,
        eps,
        WIDTH=width,
        BLOCK=shape.block,
        ROWS=shape.rows,
        RMS=kind == "rms",
        num_warps=shape.warps,
    )
    return Normed(total, values, fp8, scale)
