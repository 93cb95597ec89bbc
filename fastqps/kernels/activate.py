"""Activations between two matrix products, plain or times a gate's other half."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from fastqps.kernels.fp8 import empty_fp8, store_fp8
from fastqps.kernels.results import Activated, Activation, check_contiguous
from fastqps.kernels.shapes import activation_shape, row_shape


@triton.jit
def gelu_16_bit(x):
    """Within 8e-5 of the exact one, a quarter of what rounding to 16 bits may add, for a third of the instructions.

    The error function of x / √2 as an odd polynomial up to 4.2, where it is made to be 1, and 1 from there on: found by
    least squares with weights raised where the error was largest.
    """
    t = tl.minimum(tl.maximum(x, -4.2), 4.2)
    u = t * t
    p = u * 1.7273592278765904e-10 - 1.5513972329017633e-08
    p = u * p + 6.113286872277968e-07
    p = u * p - 1.4105714399192948e-05
    p = u * p + 2.1645563538186252e-04
    p = u * p - 2.3976010270416737e-03
    p = u * p + 2.0246488973498344e-02
    p = u * p - 1.3371588289737701e-01
    p = u * p + 7.9840469360351560e-01
    half = 0.5 * x
    return half + half * (t * p)


@triton.jit
def activated(x, KIND: tl.constexpr, EXACT: tl.constexpr):
    """float32 in and out; not EXACT: to be rounded to 16 bits or less."""
    if KIND == "gelu" and EXACT:
        return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    elif KIND == "gelu":
        return gelu_16_bit(x)
    elif KIND == "gelu_tanh":  # (1 + tanh y) / 2 is the sigmoid of 2 y
        return x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    elif KIND == "silu":
        return x * tl.sigmoid(x)
    else:
        tl.static_assert(KIND == "relu")
        return tl.maximum(x, 0.0)


@triton.jit(do_not_specialize=["rows_all"])
def activate_kernel(
    x,
    values,
    count,
    rows_all,
    INNER: tl.constexpr,
    GATED: tl.constexpr,
    KIND: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    mask = (rows < rows_all)[:, None] & (columns < INNER)[None, :]
    source = x + rows.to(tl.int64)[:, None] * (2 * INNER if GATED else INNER) + columns[None, :]
    out = activated(tl.load(source, mask, 0.0).to(tl.float32), KIND, x.dtype.element_ty == tl.float32)
    if GATED:
        out *= tl.load(source + INNER, mask, 0.0).to(tl.float32)
    if count is not None:
        mask &= (rows < tl.load(count))[:, None]
    target = values + rows.to(tl.int64)[:, None] * INNER + columns[None, :]
    tl.store(target, out.to(values.dtype.element_ty), mask)


@triton.jit
def activate_fp8_kernel(
    x, fp8, scale, count, INNER: tl.constexpr, BLOCK: tl.constexpr, GATED: tl.constexpr, KIND: tl.constexpr
):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < INNER
    source = x + row.to(tl.int64) * (2 * INNER if GATED else INNER) + columns
    out = activated(tl.load(source, mask, 0.0).to(tl.float32), KIND, x.dtype.element_ty == tl.float32)
    if GATED:
        out *= tl.load(source + INNER, mask, 0.0).to(tl.float32)
    stored = row < tl.load(count) if count is not None else True
    store_fp8(fp8 + row.to(tl.int64) * INNER, scale, row, columns, mask, out, stored)


def activate(
    x: torch.Tensor,
    kind: Activation,
    *,
    gated: bool = False,
    fp8: bool = False,
    count: torch.Tensor | None = None,
) -> Activated:
    """x [rows, inner] → act(x); gated, x [rows, 2 · inner] → act(first half) · second half. With ``fp8`` that alone.

    ``gelu`` is the exact one (of 16-bit numbers to their precision), ``gelu_tanh`` its approximation by a tanh.
    """
    check_contiguous(x=x)
    rows, inner = x.shape[0], x.shape[1] // 2 if gated else x.shape[1]
    if fp8:
        shape = row_shape(inner)
        numbers, scale = empty_fp8(x, inner)
        activate_fp8_kernel[(rows,)](
            x, numbers, scale, count, INNER=inner, BLOCK=shape.block, GATED=gated, KIND=kind, num_warps=shape.warps
        )
        return Activated(None, numbers, scale)
    tile = activation_shape()
    values = torch.empty(rows, inner, dtype=x.dtype, device=x.device)
    activate_kernel[(triton.cdiv(inner, tile.columns), triton.cdiv(rows, tile.rows))](
        x,
        values,
        count,
        rows,
        INNER=inner,
        GATED=gated,
        KIND=kind,
        ROWS=tile.rows,
        COLUMNS=tile.columns,
        num_warps=tile.warps,
    )
    return Activated(values, None, None)
