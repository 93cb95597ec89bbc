"""Matrix products on the CPU: those of csrc/step/cpu/products, which compute what follows them, too."""

from __future__ import annotations

from typing import Any, Literal

import torch

from fastqps import _core
from fastqps.kernels.results import Activation
from fastqps.ops.cpu.rows import gate_halves
from fastqps.ops.cpu.tape import Tape
from fastqps.ops.fp8 import Weight, plain
from fastqps.ops.interface import Rows
from fastqps.ops.step import address


def multiplies() -> bool:
    """Whether ``CpuMatrix`` is the product of models that are not quantised.

    Its baseline is slower than oneDNN, which has kernels for ARM.
    """
    return _core.PRODUCTS_LEVEL != "baseline"


class CpuMatrix:
    """x [rows, inputs] → x · weightᵀ + bias [rows, outputs] in ``dtype``; ``int8``: both factors quantised.

    Without ``int8`` rows and weights are ``dtype``. A row is the same, bit for bit, whatever rows are beside it. With
    ``exact`` the largest products of a row are computed by the weight as it was, which is kept: those of a head.
    """

    fp8 = False

    def __init__(
        self,
        weight: Weight,
        bias: torch.Tensor | None,
        dtype: torch.dtype,
        int8: bool,
        tape: Tape,
        exact: bool = False,
    ) -> None:
        matrix = plain(weight).to(torch.float32 if int8 else dtype).contiguous()
        bias = None if bias is None else bias.float().contiguous()
        self._outputs, inputs = matrix.shape
        self._exact = plain(weight).to(dtype).contiguous() if exact else None
        number = "int8" if int8 else str(dtype).removeprefix("torch.")
        self._matrix = _core.Matrix(
            address(matrix), address(bias), self._outputs, inputs, number, exact=address(self._exact)
        )
        self._bf16, self._tape = dtype == torch.bfloat16, tape

    def __call__(self, x: Rows) -> torch.Tensor:
        return self.activated(x, "none")

    def activated(self, x: Rows, activation: Activation | Literal["none"], gated: bool = False) -> torch.Tensor:
        """activation(product); ``gated``: of its first half, times its second."""
        if gated and self._outputs % (2 * _core.PANEL_OUTPUTS) and activation != "none":
            return gate_halves(self._tape, self(x), activation)
        out = self._tape.beside(x.tensor, self._outputs // 2 if gated else self._outputs)
        self._multiply(out, x.tensor, activation=activation, gated=gated)
        return out

    def add_residual(self, x: Rows, residual: torch.Tensor) -> torch.Tensor:
        self._multiply(residual, x.tensor, residual=address(residual))
        return residual

    def _multiply(self, out: torch.Tensor, rows: torch.Tensor, **then: Any) -> None:
        tape, matrix = self._tape, self._matrix
        matrix.multiply(tape.program, address(out), address(rows), self._bf16, tape.count(rows), **then)
