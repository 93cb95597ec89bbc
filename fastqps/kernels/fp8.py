"""Rows in float8 e4m3 with a scale each: what ``torch._scaled_mm`` reads."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

LARGEST = 448.0  # of e4m3
_LARGEST = tl.constexpr(LARGEST)
_SMALLEST = tl.constexpr(1e-12)  # an empty row's largest: its scale stays a normal number


@triton.jit
def store_fp8(fp8, scale, row, columns, mask, values, stored):
    """Writes one row of ``values`` (zero where masked) as value · 448 / largest, and largest / 448 as its scale.

    Nothing is written unless ``stored``. ``row`` may be of 64 bits; ``fp8`` points to the row's first number.
    """
    largest = tl.maximum(tl.max(tl.abs(values), 0), _SMALLEST)
    tl.store(scale + row, largest / _LARGEST, stored)
    tl.store(fp8 + columns, (values * (_LARGEST / largest)).to(fp8.dtype.element_ty), mask & stored)


def empty_fp8(like: torch.Tensor, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Room for as many rows as ``like`` has: float8_e4m3fn [rows, width] and float32 [rows, 1]."""
    rows = len(like)
    values = torch.empty(rows, width, dtype=torch.float8_e4m3fn, device=like.device)
    return values, torch.empty(rows, 1, dtype=torch.float32, device=like.device)
