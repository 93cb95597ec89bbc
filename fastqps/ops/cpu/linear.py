"""Matrix products in fp32 on the CPU: weights prepacked for oneDNN, and what follows a product fused into it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from fastqps.kernels.results import Activation
from fastqps.ops.cpu.rows import gate_halves, rows_for
from fastqps.ops.cpu.tape import Tape
from fastqps.ops.fp8 import Weight, plain
from fastqps.ops.interface import Reader, Rows
from fastqps.ops.rows import kind_of

_PACK_ROWS = 512  # the number of rows that a packed weight's layout is chosen for; other numbers work too
_SUMMED_AT_ONCE = 1024  # inputs: oneDNN sums more of them in parts if a product has one row, not if it has several

# oneDNN's fused activation, and its variant. It has no silu, and no ungated model does.
_FUSED: dict[Activation, tuple[str, str]] = {
    "gelu": ("gelu", "none"),
    "gelu_tanh": ("gelu", "tanh"),
    "relu": ("relu", ""),
}


class CpuLinear:
    """x [rows, inputs] → x · weightᵀ + bias [rows, outputs], the weight laid out once for oneDNN.

    Packed it is twice as fast as torch's default. It also computes bf16 where no kernel of ``CpuMatrix`` is fast.
    """

    fp8 = False

    def __init__(self, weight: Weight, bias: torch.Tensor | None, dtype: torch.dtype, tape: Tape) -> None:
        self._outputs, self._tape = weight.shape[0], tape
        self._weight = torch.ops.mkldnn._reorder_linear_weight(plain(weight).to(dtype).contiguous(), _PACK_ROWS)
        self._bias = None if bias is None else bias.to(dtype)

    def __call__(self, x: Rows) -> torch.Tensor:
        return self._fused(x, "none", "")

    def activated(self, x: Rows, kind: Activation, gated: bool = False) -> torch.Tensor:
        """The activation of the product; ``gated``, of its first half, times its second."""
        return gate_halves(self._tape, self(x), kind) if gated else self._fused(x, *_FUSED[kind])

    def add_residual(self, x: Rows, residual: torch.Tensor) -> torch.Tensor:
        return self._with(x, residual, "add")

    def times(self, x: Rows, gate: torch.Tensor) -> torch.Tensor:
        """The product times ``gate`` [rows, outputs], element by element, in its place."""
        return self._with(x, gate, "mul")

    def _fused(self, x: Rows, name: str, variant: str) -> torch.Tensor:
        product = torch.ops.mkldnn._linear_pointwise
        out = self._tape.beside(x.tensor, self._outputs)
        return self._call(lambda x: product(x, self._weight, self._bias, name, [], variant), out, x.tensor)

    def _with(self, x: Rows, other: torch.Tensor, how: str) -> torch.Tensor:
        product = torch.ops.mkldnn._linear_pointwise.binary
        return self._call(lambda x, other: product(x, other, self._weight, self._bias, how), other, x.tensor, other)

    def _call(self, product: Callable[..., torch.Tensor], out: torch.Tensor, *x: torch.Tensor) -> torch.Tensor:
        self._tape.call_torch(f"matrix products in {_name(out)}", partial(_as_in_company, product), [out], *x)
        return out


def _as_in_company(product: Callable[..., torch.Tensor], *x: torch.Tensor) -> list[torch.Tensor]:
    """The product. A single row is computed as two, in equal time, where oneDNN would sum it in another order."""
    if x[0].shape[0] != 1 or x[0].shape[1] <= _SUMMED_AT_ONCE:
        return [product(*x)]
    return [product(*(torch.cat((row, row)) for row in x))[:1]]  # faster than views, which oneDNN would copy


def _name(x: torch.Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")


class CpuGated:
    """Two products, the second fused with the activation of the first."""

    fp8 = False

    def __init__(self, gate: CpuLinear, up: CpuLinear, activation: str, tape: Tape) -> None:
        self._gate, self._up, self._kind, self._tape = gate, up, kind_of(activation), tape

    def __call__(self, x: Rows, reader: Reader) -> Rows:
        return rows_for(self._tape, self._up.times(x, self._gate.activated(x, self._kind)), reader)
