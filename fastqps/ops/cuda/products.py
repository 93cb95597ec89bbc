"""Matrix products on a GPU: torch's, in the model's type or in FP8, and the kernel that activates what they give."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from fastqps.ops.cuda.operations import Operations
from fastqps.ops.fp8 import Quantised, multiply
from fastqps.ops.interface import Linear, Reader, Rows
from fastqps.ops.rows import kind_of

_GELUS = ("gelu", "gelu_tanh")


class CudaLinear:
    """weight [outputs, inputs] and bias [outputs] of one type, on the device."""

    fp8 = False

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self._weight, self._bias = weight, bias
        self.fuses_residual = bias is None  # `add_residual` is one kernel, and rounds once

    def __call__(self, x: Rows) -> torch.Tensor:
        return F.linear(x.tensor, self._weight, self._bias)

    def add_residual(self, x: Rows, residual: torch.Tensor) -> torch.Tensor:
        if self.fuses_residual:
            return residual.addmm_(x.tensor, self._weight.t())
        return residual.add_(self(x))  # torch adds a bias or a residual, not both

    @property
    def fuses_gelu(self) -> bool:
        """Whether ``gelu`` can be called: with a bias, in 16 bits.

        cuBLASLt's is the approximation by tanh, which is off by a hundredth of what rounding is (docs/kernels.md).
        """
        return self._bias is not None and self._weight.device.type == "cuda" and self._weight.dtype.itemsize == 2

    def gelu(self, x: Rows) -> torch.Tensor:
        """gelu of the product, written by the product itself."""
        assert self._bias is not None
        return torch._addmm_activation(self._bias, x.tensor, self._weight.t(), use_gelu=True)


class CudaFp8Linear:
    """The same of a quantised weight; the product comes out in ``dtype``."""

    fp8 = True
    fuses_residual = False

    def __init__(self, weight: Quantised, bias: torch.Tensor | None, dtype: torch.dtype) -> None:
        self._weight, self._bias, self._dtype = weight, bias, dtype

    def __call__(self, x: Rows) -> torch.Tensor:
        assert x.fp8 is not None and x.scale is not None, "these rows were made for another reader"
        return multiply(x.fp8, x.scale, self._weight, self._bias, self._dtype)

    def add_residual(self, x: Rows, residual: torch.Tensor) -> torch.Tensor:
        return residual.add_(self(x))


class CudaActivated:
    """An activation behind a product; ``gated``, of its first half, times its second."""

    def __init__(self, linear: Linear, activation: str, kernels: Operations, gated: bool) -> None:
        self._linear, self._kind, self._gated, self.fp8 = linear, kind_of(activation), gated, linear.fp8
        self._activate = kernels.activate
        self._fused: CudaLinear | None = None
        if isinstance(linear, CudaLinear) and linear.fuses_gelu and self._kind in _GELUS and not gated:
            self._fused = linear

    def __call__(self, x: Rows, reader: Reader) -> Rows:
        if self._fused and not reader.fp8:
            return Rows(self._fused.gelu(x))
        return Rows(*self._activate(self._linear(x), self._kind, gated=self._gated, fp8=reader.fp8))
