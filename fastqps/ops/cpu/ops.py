"""``Ops`` on the CPU: oneDNN's products, and the kernels of csrc/step/cpu/cpu_ops.h where torch has no fast one."""

from __future__ import annotations

from typing import Literal

import torch

from fastqps import _core
from fastqps.ops.cpu.fp8 import CpuFp8Activated, CpuFp8Gated, CpuFp8Linear
from fastqps.ops.cpu.int8 import CpuInt8Activated, CpuInt8Linear
from fastqps.ops.cpu.linear import CpuActivated, CpuGated, CpuLinear
from fastqps.ops.fp8 import Quantised, Weight, concatenate, joined, plain
from fastqps.ops.interface import Activated, Linear, Reader, Rows, Site
from fastqps.ops.precision import Precision
from fastqps.ops.rows import rows_for
from fastqps.ops.step import address


class CpuNorm:
    """Layer or root mean square normalisation over the last dimension, in fp32 whatever the input's type."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, eps: float, kind: str) -> None:
        self._weight, self._bias = weight, bias
        self._eps, self._rms = eps, kind == "rms"

    def __call__(self, x: torch.Tensor, reader: Reader | None) -> Rows:
        return rows_for(self._normalize(torch.empty_like(x), x), reader)

    def add(self, linear: Linear, h: Rows, x: torch.Tensor, reader: Reader | None) -> tuple[torch.Tensor, Rows]:
        x = linear.add_residual(h, x)
        return x, self(x, reader)

    def add_post(self, linear: Linear, h: Rows, x: torch.Tensor, reader: Reader | None) -> Rows:
        x = linear.add_residual(h, x)
        return rows_for(self._normalize(x, x), reader)

    def _normalize(self, out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        rows = (address(out), address(x), is_bf16(x), len(x), address(self._weight))
        width, threads = len(self._weight), torch.get_num_threads()
        if self._rms:
            _core.rms_norm(*rows, width, self._eps, threads)
        else:
            _core.normalize(*rows, address(self._bias), width, self._eps, threads)
        return out


class CpuGatedSilu:
    """One product for gate and up, then silu(gate) · up."""

    def __init__(self, gate_up: Linear) -> None:
        self._gate_up, self.fp8 = gate_up, gate_up.fp8

    def __call__(self, x: Rows, reader: Reader) -> Rows:
        both = self._gate_up(x)
        rows, inner = both.shape[0], both.shape[1] // 2
        out = both.new_empty(rows, inner)
        _core.gated_silu(address(out), address(both), is_bf16(both), rows, inner, torch.get_num_threads())
        return rows_for(out, reader)


class CpuOps:
    """Parameters stay where they were read to, in ``dtype``; ``precision`` says which products are quantised."""

    device = torch.device("cpu")
    reads_weights = True

    def __init__(self, dtype: torch.dtype, precision: Precision | None = None) -> None:
        self.dtype = dtype
        self._precision = precision or Precision()

    def keep(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.contiguous()

    def linear(self, weight: Weight, bias: torch.Tensor | None, site: Site) -> Linear:
        if not self._quantises(weight, site):
            return CpuLinear(plain(weight), bias, self.dtype)
        return self._quantised(weight, bias)

    def _quantised(self, weight: Weight, bias: torch.Tensor | None) -> CpuInt8Linear | CpuFp8Linear:
        return (
            CpuInt8Linear(weight, bias, self.dtype) if self._precision.int8 else CpuFp8Linear(weight, bias, self.dtype)
        )

    def activated(self, weight: Weight, bias: torch.Tensor | None, activation: str, site: Site) -> Activated:
        if not self._quantises(weight, site):
            return CpuActivated(CpuLinear(plain(weight), bias, self.dtype), activation)
        linear = self._quantised(weight, bias)
        if isinstance(linear, CpuInt8Linear):
            return CpuInt8Activated(linear, activation, gated=False)
        return CpuFp8Activated(linear, activation)

    def gated(
        self, gate: Weight, up: Weight, biases: tuple[torch.Tensor, torch.Tensor] | None, activation: str, site: Site
    ) -> Activated:
        both, bias = concatenate([gate, up]), joined(biases) if biases else None
        if self._quantises(both, site):
            linear = self._quantised(both, bias)
            if isinstance(linear, CpuInt8Linear):
                return CpuInt8Activated(linear, activation, gated=True)
            return CpuGatedSilu(linear) if activation == "silu" else CpuFp8Gated(linear, activation)
        if activation == "silu":
            return CpuGatedSilu(CpuLinear(plain(both), bias, self.dtype))
        gate_bias, up_bias = biases or (None, None)
        first, second = CpuLinear(plain(gate), gate_bias, self.dtype), CpuLinear(plain(up), up_bias, self.dtype)
        return CpuGated(first, second, activation)

    def norm(
        self, weight: torch.Tensor, bias: torch.Tensor | None, eps: float, kind: Literal["layer", "rms"]
    ) -> CpuNorm:
        return CpuNorm(self.keep(weight), None if bias is None else self.keep(bias), eps, kind)

    def rows(self, x: torch.Tensor, reader: Reader) -> Rows:
        return rows_for(x, reader)

    def _quantises(self, weight: Weight, site: Site) -> bool:
        outputs, inputs = weight.shape
        return self._precision.quantises(outputs, inputs, site, held=isinstance(weight, Quantised))


def is_bf16(x: torch.Tensor) -> bool:
    return x.dtype == torch.bfloat16
