"""FP8 on the CPU: slower than bf16, and there to prove what a GPU computes. Nothing is fused into its products."""

from __future__ import annotations

import torch

from fastqps.ops.fp8 import Quantised, Weight, multiply, quantise_weight
from fastqps.ops.interface import Reader, Rows
from fastqps.ops.rows import function, rows_for


class CpuFp8Linear:
    """x [rows, inputs] → x · weightᵀ + bias [rows, outputs] in ``dtype``, both factors quantised."""

    fp8 = True

    def __init__(self, weight: Weight, bias: torch.Tensor | None, dtype: torch.dtype) -> None:
        self._weight = weight if isinstance(weight, Quantised) else quantise_weight(weight)
        self._bias = None if bias is None else bias.to(dtype)
        self._dtype = dtype

    def __call__(self, x: Rows) -> torch.Tensor:
        assert x.fp8 is not None and x.scale is not None, "these rows were made for another reader"
        return multiply(x.fp8, x.scale, self._weight, self._bias, self._dtype)

    def add_residual(self, x: Rows, residual: torch.Tensor) -> torch.Tensor:
        return self(x).add_(residual)


class CpuFp8Activated:
    fp8 = True

    def __init__(self, linear: CpuFp8Linear, activation: str) -> None:
        self._linear, self._function = linear, function(activation)

    def __call__(self, x: Rows, reader: Reader) -> Rows:
        return rows_for(self._function(self._linear(x)), reader)


class CpuFp8Gated:
    """One product for gate and up."""

    fp8 = True

    def __init__(self, gate_up: CpuFp8Linear, activation: str) -> None:
        self._gate_up, self._function = gate_up, function(activation)

    def __call__(self, x: Rows, reader: Reader) -> Rows:
        gate, up = self._gate_up(x).chunk(2, 1)
        return rows_for(self._function(gate) * up, reader)
