"""int8 and bf16 on the CPU: products of csrc/step/cpu/products, which compute what follows them, too."""

from __future__ import annotations

from typing import Literal

import torch

from fastqps import _core
from fastqps.kernels.results import Activation
from fastqps.ops.cpu.linear import gate_halves
from fastqps.ops.fp8 import Weight, plain
from fastqps.ops.interface import Rows
from fastqps.ops.step import address


def multiplies(dtype: torch.dtype) -> bool:
    """Whether ``CpuMatrix`` is the product of models in ``dtype`` that are not quantised.

    Its baseline is slower than oneDNN, which has bf16 kernels for ARM.
    """
    return dtype == torch.bfloat16 and _core.PRODUCTS_LEVEL != "baseline"


class CpuMatrix:
    """x [rows, inputs] → x · weightᵀ + bias [rows, outputs] in ``dtype``; ``int8``: both factors quantised.

    Without ``int8`` rows and weights are bf16. A row is the same, bit for bit, whatever rows are beside it.
    """

    fp8 = False

    def __init__(self, weight: Weight, bias: torch.Tensor | None, dtype: torch.dtype, int8: bool) -> None:
        matrix = plain(weight).float().contiguous()
        bias = None if bias is None else bias.float().contiguous()
        self._outputs, inputs = matrix.shape
        self._matrix = _core.Matrix(address(matrix), address(bias), self._outputs, inputs, int8)
        self._bf16 = dtype == torch.bfloat16

    def __call__(self, x: Rows) -> torch.Tensor:
        return self.activated(x, "none")

    def activated(self, x: Rows, activation: Activation | Literal["none"], gated: bool = False) -> torch.Tensor:
        """activation(product); ``gated``: of its first half, times its second."""
        if gated and self._outputs % (2 * _core.PANEL_OUTPUTS) and activation != "none":
            return gate_halves(self(x), activation)
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
