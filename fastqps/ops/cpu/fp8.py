"""FP8 on the CPU: slower than bf16, and there to prove what a GPU computes. Nothing is fused into its products."""

from __future__ import annotations

from collections.abc import Callable

import torch

from fastqps.kernels.results import Activation
from fastqps.ops.cpu.tape import Tape
from fastqps.ops.fp8 import Quantised, Weight, multiply, quantise_weight
from fastqps.ops.interface import Rows
from fastqps.ops.rows import FUNCTIONS, gate_halves


class CpuFp8Linear:
    """x [rows, inputs] → x · weightᵀ + bias [rows, outputs] in ``dtype``, both factors quantised."""

    fp8 = True

    def __init__(self, weight: Weight, bias: torch.Tensor | None, dtype: torch.dtype, tape: Tape) -> None:
        self._weight = weight if isinstance(weight, Quantised) else quantise_weight(weight)
        self._bias = None if bias is None else bias.to(dtype)
        self._dtype, self._tape = dtype, tape

    def __call__(self, x: Rows) -> torch.Tensor:
        return self._then(lambda product: product, x, self._out(x))

    def add_residual(self, x: Rows, residual: torch.Tensor) -> torch.Tensor:
        return self._then(torch.Tensor.add_, x, residual, residual)

    def activated(self, x: Rows, kind: Activation, gated: bool = False) -> torch.Tensor:
        """The activation of the product; ``gated``, of its first half, times its second."""
        if gated:
            return self._then(lambda both: gate_halves(both, kind), x, self._out(x, 2))
        return self._then(FUNCTIONS[kind], x, self._out(x))

    def _out(self, x: Rows, halves: int = 1) -> torch.Tensor:
        assert x.fp8 is not None, "these rows were made for another reader"
        return self._tape.beside(x.fp8, self._weight.shape[0] // halves, self._dtype)

    def _then(
        self, function: Callable[..., torch.Tensor], x: Rows, out: torch.Tensor, *others: torch.Tensor
    ) -> torch.Tensor:
        """Fills ``out`` with function(the product, *others)."""
        assert x.fp8 is not None and x.scale is not None

        def compute(fp8: torch.Tensor, scale: torch.Tensor, *others: torch.Tensor) -> list[torch.Tensor]:
            return [function(multiply(fp8, scale, self._weight, self._bias, self._dtype), *others)]

        self._tape.call_torch("matrix products in FP8", compute, [out], x.fp8, x.scale, *others)
        return out
