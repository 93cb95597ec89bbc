"""``Ops`` on a GPU: torch's matrix products, and the operations of ``fastqps.kernels`` for all between them.

A step has its ``counts`` on the device, captured or not. Nothing here waits for the device or asks it anything.
"""

from __future__ import annotations

from typing import Literal

import torch

from fastqps.ops.cuda.operations import Operations, own_operations
from fastqps.ops.cuda.products import CudaActivated, CudaFp8Linear, CudaLinear
from fastqps.ops.fp8 import Quantised, Weight, concatenate, joined, plain, quantised_for
from fastqps.ops.interface import Activated, Linear, Reader, Rows, Site
from fastqps.ops.parameters import Parameters
from fastqps.ops.precision import Precision


class CudaNorm:
    def __init__(
        self,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        eps: float,
        kind: Literal["layer", "rms"],
        kernels: Operations,
    ) -> None:
        self._how = weight, bias, eps, kind
        self._add_norm = kernels.add_norm

    def __call__(self, x: torch.Tensor, reader: Reader | None) -> Rows:
        fp8 = reads_fp8(reader)
        _, *normed = self._add_norm(x, *self._how, return_values=not fp8, return_fp8=fp8)
        return Rows(*normed)

    def add(self, linear: Linear, h: Rows, x: torch.Tensor, reader: Reader | None) -> tuple[torch.Tensor, Rows]:
        fp8 = reads_fp8(reader)
        if fuses_residual(linear):
            x = linear.add_residual(h, x)
            return x, self(x, reader)
        summed = self._add_norm(
            linear(h), *self._how, residual=x, return_sum=True, return_values=not fp8, return_fp8=fp8
        )
        total, *normed = summed
        assert total is not None
        return total, Rows(*normed)

    def add_post(self, linear: Linear, h: Rows, x: torch.Tensor, reader: Reader | None) -> Rows:
        residual: torch.Tensor | None = x
        if fuses_residual(linear):
            x, residual = linear.add_residual(h, x), None
        else:
            x = linear(h)
        _, *normed = self._add_norm(x, *self._how, residual=residual, return_fp8=reads_fp8(reader))
        return Rows(*normed)


def reads_fp8(reader: Reader | None) -> bool:
    return reader is not None and reader.fp8


def fuses_residual(linear: Linear) -> bool:
    """Whether the product adds the residual itself: then the norm has one matrix less to read."""
    return isinstance(linear, CudaLinear) and linear.fuses_residual


class CudaOps:
    """``where`` its parameters are kept, and its steps run; ``precision`` says which products run in FP8.

    ``kernels`` compute all between the products; unless given, the own kernels, unchecked.
    """

    def __init__(
        self,
        dtype: torch.dtype,
        where: Parameters | torch.device | str,
        precision: Precision | None = None,
        kernels: Operations | None = None,
    ) -> None:
        self.dtype, self._precision = dtype, precision or Precision()
        self._kernels = kernels or own_operations()
        self._parameters = where if isinstance(where, Parameters) else Parameters(where)
        self.device, self.reads_weights = self._parameters.device, self._parameters.reads

    def keep(self, tensor: torch.Tensor) -> torch.Tensor:
        return self._parameters.keep(tensor)

    def keep_optional(self, tensor: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor | None:
        """Keeps the tensor in ``dtype``, where there is one."""
        return None if tensor is None else self.keep(tensor.to(dtype))

    def linear(self, weight: Weight, bias: torch.Tensor | None, site: Site) -> Linear:
        outputs, inputs = weight.shape
        if not self._precision.quantises(outputs, inputs, site, held=isinstance(weight, Quantised)):
            return CudaLinear(self.keep(plain(weight).to(self.dtype)), self.keep_optional(bias, self.dtype))
        quantised = quantised_for(self.device, weight)
        kept = Quantised(self.keep(quantised.values), self.keep(quantised.scales))
        # cuBLAS makes bfloat16 of FP8, and adds a bias of that type
        bias_type = torch.bfloat16 if self.device.type == "cuda" else self.dtype
        return CudaFp8Linear(kept, self.keep_optional(bias, bias_type), self.dtype)

    def activated(self, weight: Weight, bias: torch.Tensor | None, activation: str, site: Site) -> Activated:
        return CudaActivated(self.linear(weight, bias, site), activation, self._kernels, gated=False)

    def gated(
        self, gate: Weight, up: Weight, biases: tuple[torch.Tensor, torch.Tensor] | None, activation: str, site: Site
    ) -> Activated:
        both = self.linear(concatenate([gate, up]), joined(biases) if biases else None, site)
        return CudaActivated(both, activation, self._kernels, gated=True)

    def norm(
        self, weight: torch.Tensor, bias: torch.Tensor | None, eps: float, kind: Literal["layer", "rms"]
    ) -> CudaNorm:
        return CudaNorm(self.keep(weight), self.keep_optional(bias, torch.float32), eps, kind, self._kernels)

    def rows(self, x: torch.Tensor, reader: Reader) -> Rows:
        return Rows(None, *self._kernels.quantise_rows(x)) if reader.fp8 else Rows(x)

    def norm_columns(self, x: torch.Tensor, first: int, weight: torch.Tensor, eps: float) -> None:
        columns = x[:, first : first + len(weight)]
        _, normed, *_ = self._kernels.add_norm(columns.contiguous(), weight, None, eps, "rms")
        assert normed is not None
        columns.copy_(normed)

    def add(self, sums: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return sums.add_(x)
