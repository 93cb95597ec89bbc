"""``Ops`` on the CPU: the kernels of csrc/step/cpu."""

from __future__ import annotations

from typing import Literal

import torch

from fastqps.ops.cpu.fp8 import CpuFp8Linear
from fastqps.ops.cpu.linear import CpuLinear
from fastqps.ops.cpu.matrix import CpuMatrix, multiplies
from fastqps.ops.cpu.rows import is_bf16, rows_for
from fastqps.ops.cpu.tape import Tape
from fastqps.ops.fp8 import Quantised, Weight, concatenate, joined
from fastqps.ops.interface import Activated, Linear, Reader, Rows, Site
from fastqps.ops.precision import Precision
from fastqps.ops.rows import kind_of
from fastqps.ops.step import address

_Product = CpuLinear | CpuMatrix | CpuFp8Linear


class CpuNorm:
    """Layer or root mean square normalisation over the last dimension, in fp32 whatever the input's type."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, eps: float, kind: str, tape: Tape) -> None:
        self._weight, self._bias = weight, bias
        self._eps, self._rms, self._tape = eps, kind == "rms", tape

    def __call__(self, x: torch.Tensor, reader: Reader | None) -> Rows:
        return self._rows(self._normalize(self._tape.beside(x, x.shape[1]), x), reader)

    def add(self, linear: Linear, h: Rows, x: torch.Tensor, reader: Reader | None) -> tuple[torch.Tensor, Rows]:
        x = linear.add_residual(h, x)
        return x, self(x, reader)

    def add_post(self, linear: Linear, h: Rows, x: torch.Tensor, reader: Reader | None) -> Rows:
        x = linear.add_residual(h, x)
        return self._rows(self._normalize(x, x), reader)

    def _normalize(self, out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        rows = address(out), address(x), is_bf16(x), self._tape.count(x), address(self._weight)
        program, width = self._tape.program, len(self._weight)
        if self._rms:
            program.rms_norm(*rows, width, self._eps)
        else:
            program.normalize(*rows, address(self._bias), width, self._eps)
        return out

    def _rows(self, x: torch.Tensor, reader: Reader | None) -> Rows:
        return rows_for(self._tape, x, reader)


class CpuActivated:
    """The activation of a product; ``gated``, of its first half, times its second."""

    def __init__(self, linear: _Product, activation: str, gated: bool, tape: Tape) -> None:
        self._linear, self._kind, self._gated, self.fp8 = linear, kind_of(activation), gated, linear.fp8
        self._tape = tape

    def __call__(self, x: Rows, reader: Reader) -> Rows:
        return rows_for(self._tape, self._linear.activated(x, self._kind, self._gated), reader)


class CpuOps:
    """Parameters stay where they were read to, in ``dtype``; ``precision`` says which products are quantised."""

    device = torch.device("cpu")
    reads_weights = True

    def __init__(self, dtype: torch.dtype, precision: Precision | None = None) -> None:
        self.dtype, self.tape = dtype, Tape()
        self._precision = precision or Precision()

    def keep(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.contiguous()

    def linear(self, weight: Weight, bias: torch.Tensor | None, site: Site) -> Linear:
        return self._product(weight, bias, self._quantises(weight, site), exact=site.kind == "logits")

    def activated(self, weight: Weight, bias: torch.Tensor | None, activation: str, site: Site) -> Activated:
        return CpuActivated(self._product(weight, bias, self._quantises(weight, site)), activation, False, self.tape)

    def gated(
        self, gate: Weight, up: Weight, biases: tuple[torch.Tensor, torch.Tensor] | None, activation: str, site: Site
    ) -> Activated:
        both, bias = concatenate([gate, up]), joined(biases) if biases else None
        return CpuActivated(self._product(both, bias, self._quantises(both, site)), activation, True, self.tape)

    def _product(self, weight: Weight, bias: torch.Tensor | None, quantised: bool, exact: bool = False) -> _Product:
        int8 = quantised and self._precision.int8
        if int8 or (not quantised and multiplies()):
            return CpuMatrix(weight, bias, self.dtype, int8, self.tape, exact and int8)
        return (CpuFp8Linear if quantised else CpuLinear)(weight, bias, self.dtype, self.tape)

    def norm(
        self, weight: torch.Tensor, bias: torch.Tensor | None, eps: float, kind: Literal["layer", "rms"]
    ) -> CpuNorm:
        return CpuNorm(self.keep(weight), None if bias is None else self.keep(bias), eps, kind, self.tape)

    def rows(self, x: torch.Tensor, reader: Reader) -> Rows:
        return rows_for(self.tape, x, reader)

    def norm_columns(self, x: torch.Tensor, first: int, weight: torch.Tensor, eps: float) -> None:
        at, columns = address(x) + first * x.itemsize, len(weight)
        rows = at, at, is_bf16(x), self.tape.count(x), address(weight)
        self.tape.program.rms_norm(*rows, columns, eps, stride=x.shape[1])

    def add(self, sums: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        self.tape.program.add(address(sums), address(x), is_bf16(x), self.tape.count(x), x.shape[1])
        return sums

    def pick(self, x: torch.Tensor, mode: str, starts: torch.Tensor) -> torch.Tensor:
        """x [tokens, width] → [items, width]: the first row of each item (``cls``) or its last one (``lasttoken``)."""
        n_items, width = self.tape.items(starts), x.shape[1]
        out = self.tape.empty(n_items, len(starts) - 1, width, x.dtype)
        self.tape.program.pick_rows(
            address(out), False, address(x), is_bf16(x), width, address(starts), n_items, mode, out_bfloat16=is_bf16(x)
        )
        return out

    def _quantises(self, weight: Weight, site: Site) -> bool:
        outputs, inputs = weight.shape
        return self._precision.quantises(outputs, inputs, site, held=isinstance(weight, Quantised))
