"""int8 on the CPU: products of csrc/step/cpu/int8, which quantise their rows and compute what follows them."""

from __future__ import annotations

from typing import Literal

import torch

from fastqps import _core
from fastqps.kernels.results import Activation
from fastqps.ops.fp8 import Weight, plain
from fastqps.ops.interface import Rows
from fastqps.ops.step import address


class CpuInt8Linear:
    """x [rows, inputs] → x · weightᵀ + bias [rows, outputs] in ``dtype``, both factors quantised."""

    fp8 = False

    def __init__(self, weight: Weight, bias: torch.Tensor | None, dtype: torch.dtype) -> None:
        matrix = plain(weight).float().contiguous()
        bias = None if bias is None else bias.float().contiguous()
        self._outputs, inputs = matrix.shape
        self._matrix = _core.Int8Matrix(address(matrix), address(bias), self._outputs, inputs)
        self._bf16 = dtype == torch.bfloat16

    def __call__(self, x: Rows) -> torch.Tensor:
        return self.activated(x, "none")

    def activated(self, x: Rows, activation: Activation | Literal["none"], gated: bool = False) -> torch.Tensor:
        """activation(product); ``gated``: of its first half, times its second."""
        rows = x.tensor
        out = rows.new_empty(len(rows), self._outputs // 2 if gated else self._outputs)
        self._matrix.multiply(
            address(out), address(rows), self._bf16, len(rows), torch.get_num_threads(), activation, gated
        )
        return out

    def add_residual(self, x: Rows, residual: torch.Tensor) -> torch.Tensor:
        rows, sums = x.tensor, address(residual)
        self._matrix.multiply(sums, address(rows), self._bf16, len(rows), torch.get_num_threads(), residual=sums)
        return residual
