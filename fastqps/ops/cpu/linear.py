"""Matrix products of oneDNN, where ``CpuMatrix`` is slower. Weights are packed, and what follows is fused."""

from __future__ import annotations

from collections.abc import Callable

import torch

from fastqps.kernels.results import Activation
from fastqps.ops.cpu.rows import gate_halves
from fastqps.ops.cpu.tape import Tape
from fastqps.ops.fp8 import Weight, plain
from fastqps.ops.interface import Rows

_PACK_ROWS = 512  # the number of rows that a packed weight's layout is chosen for; other numbers work too

# oneDNN's fused activation, and its variant. It has no silu, and no ungated model does.
_FUSED: dict[Activation, tuple[str, str]] = {
    "gelu": ("gelu", "none"),
    "gelu_tanh": ("gelu", "tanh"),
    "relu": ("relu", ""),
}


class CpuLinear:
    """x [rows, inputs] → x · weightᵀ + bias [rows, outputs], the weight laid out once for oneDNN.

    Packed it is twice as fast as torch's default.
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
        product = torch.ops.mkldnn._linear_pointwise.binary
        return self._call(lambda x, to: product(x, to, self._weight, self._bias, "add"), residual, x.tensor, residual)

    def _fused(self, x: Rows, name: str, variant: str) -> torch.Tensor:
        product = torch.ops.mkldnn._linear_pointwise
        out = self._tape.beside(x.tensor, self._outputs)
        return self._call(lambda x: product(x, self._weight, self._bias, name, [], variant), out, x.tensor)

    def _call(self, product: Callable[..., torch.Tensor], out: torch.Tensor, *x: torch.Tensor) -> torch.Tensor:
        name = str(out.dtype).removeprefix("torch.")
        self._tape.call_torch(f"matrix products in {name}", lambda *x: [product(*x)], [out], *x)
        return out
