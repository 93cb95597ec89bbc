"""Rows in float8 e4m3 with a scale each: what ``torch._scaled_mm`` reads."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from fastqps.kernels.float8_format import E4M3FN, E4M3FNUZ, format_of
from fastqps.kernels.vendor import architecture

_FN_LARGEST, _FNUZ_LARGEST = tl.constexpr(E4M3FN.largest), tl.constexpr(E4M3FNUZ.largest)
_SMALLEST = tl.constexpr(1e-12)  # an empty row's largest: its scale stays a normal number


@triton.jit
def store_fp8(fp8, scale, row, columns, mask, values, stored):
    """Writes one row of ``values`` (zero where masked) as value · M / largest, and largest / M as its scale, where M is
    the largest number of the type that ``fp8`` points to: 448, or 240 for e4m3fnuz.

    Nothing is written unless ``stored``. ``row`` may be of 64 bits; ``fp8`` points to the row's first number.
    """
    end: tl.constexpr = _FNUZ_LARGEST if fp8.dtype.element_ty == tl.float8e4b8 else _FN_LARGEST
    largest = tl.maximum(tl.max(tl.abs(values), 0), _SMALLEST)
    tl.store(scale + row, largest / end, stored)
    tl.store(fp8 + columns, (values * (end / largest)).to(fp8.dtype.element_ty), mask & stored)


def empty_fp8(like: torch.Tensor, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Room for as many rows as ``like`` has: float8 of the GPU's format [rows, width] and float32 [rows, 1]."""
    rows = len(like)
    values = torch.empty(rows, width, dtype=format_of(architecture()).dtype, device=like.device)
    return values, torch.empty(rows, 1, dtype=torch.float32, device=like.device)
