"""int8 on the CPU: products of csrc/step/cpu/int8, which quantise their rows and compute what follows them."""

from __future__ import annotations

from typing import Any, Literal

import torch

from fastqps import _core
from fastqps.kernels.results import Activation
from fastqps.ops.cpu.tape import Tape
from fastqps.ops.fp8 import Weight, plain
from fastqps.ops.interface import Rows
from fastqps.ops.step import address


class CpuInt8Linear:
    """x [rows, inputs] → x · weightᵀ + bias [rows, outputs] in ``dtype``, both factors quantised."""

    fp8 = False

    def __init__(self, weight: Weight, bias: torch.Tensor | None, dtype: torch.dtype, tape: Tape) -> None:
        matrix = plain(weight).float().contiguous()
        bias = None if bias is None else bias.float().contiguous()
        self._outputs, inputs = matrix.shape
        self._matrix = _core.Int8Matrix(address(matrix), address(bias), self._outputs, inputs)
        self._bf16, self._tape = dtype == torch.bfloat16, tape

    def __call__(self, x: Rows) -> torch.Tensor:
        return self.activated(x, "none")

    def activated(self, x: Rows, activation: Activation | Literal["none"], gated: bool = False) -> torch.Tensor:
        """activation(product); ``gated``: of its first half, times its second."""
        out = self._tape.beside(x.tensor, self._outputs // 2 if gated else self._outputs)
        self._multiply(out, x.tensor, activation=activation, gated=gated)
        return out

    def add_residual(self, x: Rows, residual: torch.Tensor) -> torch.Tensor:
        self._multiply(residual, x.tensor, residual=address(residual))
        return residual

    def _multiply(self, out: torch.Tensor, rows: torch.Tensor, **then: Any) -> None:
        tape, matrix = self._tape, self._matrix
        matrix.multiply(tape.program, address(out), address(rows), self._bf16, tape.count(rows), **then)
