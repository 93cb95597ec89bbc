"""FP8 on the CPU: slower than bf16, and there to prove what a GPU computes. Nothing is fused into its products."""

from __future__ import annotations

import torch

from fastqps.kernels.results import Activation
from fastqps.ops.cpu.linear import gate_halves
from fastqps.ops.fp8 import Quantised, Weight, multiply, quantise_weight
from fastqps.ops.interface import Rows
from fastqps.ops.rows import FUNCTIONS


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

    def activated(self, x: Rows, kind: Activation, gated: bool = False) -> torch.Tensor:
        """The activation of the product; ``gated``, of its first half, times its second."""
        return gate_halves(self(x), kind) if gated else FUNCTIONS[kind](self(x))
