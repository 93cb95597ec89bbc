"""Matrix products in fp32 on the CPU: weights prepacked for oneDNN, and what follows a product fused into it."""

from __future__ import annotations

import torch

from fastqps import _core
from fastqps.kernels.results import Activation
from fastqps.ops.fp8 import Weight, plain
from fastqps.ops.interface import Reader, Rows
from fastqps.ops.rows import FUNCTIONS, kind_of, rows_for
from fastqps.ops.step import address

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

    def __init__(self, weight: Weight, bias: torch.Tensor | None, dtype: torch.dtype) -> None:
        self._weight = torch.ops.mkldnn._reorder_linear_weight(plain(weight).to(dtype).contiguous(), _PACK_ROWS)
        self._bias = None if bias is None else bias.to(dtype)

    def __call__(self, x: Rows) -> torch.Tensor:
        return self._fused(x, "none", "")

    def activated(self, x: Rows, kind: Activation, gated: bool = False) -> torch.Tensor:
        """The activation of the product; ``gated``, of its first half, times its second."""
        return gate_halves(self(x), kind) if gated else self._fused(x, *_FUSED[kind])

    def _fused(self, x: Rows, name: str, variant: str) -> torch.Tensor:
        if self._alone(x):
            return self._fused(Rows(_twice(x.tensor)), name, variant)[:1]
        out: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x.tensor, self._weight, self._bias, name, [], variant)
        return out

    def add_residual(self, x: Rows, residual: torch.Tensor) -> torch.Tensor:
        return self._with(x, residual, "add")

    def times(self, x: Rows, gate: torch.Tensor) -> torch.Tensor:
        """The product times ``gate`` [rows, outputs], element by element."""
        return self._with(x, gate, "mul")

    def _with(self, x: Rows, other: torch.Tensor, how: str) -> torch.Tensor:
        if self._alone(x):
            return self._with(Rows(_twice(x.tensor)), _twice(other), how)[:1]
        binary = torch.ops.mkldnn._linear_pointwise.binary
        out: torch.Tensor = binary(x.tensor, other, self._weight, self._bias, how)
        return out

    @staticmethod
    def _alone(x: Rows) -> bool:
        """Whether to compute a single row as two, which takes no longer: its answer is the same as in company."""
        return x.tensor.shape[0] == 1 and x.tensor.shape[1] > _SUMMED_AT_ONCE


def _twice(row: torch.Tensor) -> torch.Tensor:
    return torch.cat((row, row))  # faster than a view, which oneDNN would copy


def gate_halves(both: torch.Tensor, kind: Activation) -> torch.Tensor:
    """The activation of the first half of each row, times the second half."""
    if kind != "silu":
        gate, up = both.chunk(2, 1)
        return FUNCTIONS[kind](gate) * up
    rows, inner = both.shape[0], both.shape[1] // 2
    out = both.new_empty(rows, inner)
    _core.gated_silu(address(out), address(both), is_bf16(both), rows, inner, torch.get_num_threads())
    return out


def is_bf16(x: torch.Tensor) -> bool:
    return x.dtype == torch.bfloat16


class CpuGated:
    """Two products, the second fused with the activation of the first."""

    fp8 = False

    def __init__(self, gate: CpuLinear, up: CpuLinear, activation: str) -> None:
        self._gate, self._up, self._kind = gate, up, kind_of(activation)

    def __call__(self, x: Rows, reader: Reader) -> Rows:
        return rows_for(self._up.times(x, self._gate.activated(x, self._kind)), reader)
