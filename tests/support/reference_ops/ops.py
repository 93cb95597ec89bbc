"""``Ops`` in plain torch, on any device: the reference implementation of every other device's operations.

Nothing in it depends on the numbers in a tensor but other numbers in tensors, so steps of a fixed size can be captured:
how much of them is used is read from the step's ``counts``.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch.nn import functional as F

from fastqps.ops.fp8 import Quantised, Weight, concatenate, joined, plain, quantise_weight
from fastqps.ops.interface import Activated, Linear, Reader, Rows, Site
from fastqps.ops.parameters import Parameters
from fastqps.ops.precision import Precision
from fastqps.ops.rows import function, rows_for


def turned(x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    """x [..., size] with its halves turned against each other by cos and sin, ``turns`` [..., 2, size / 2]."""
    (a, b), (cos, sin) = x.chunk(2, -1), turns.unbind(-2)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class ReferenceLinear:
    """The product comes out in ``dtype``."""

    def __init__(self, weight: Weight, bias: torch.Tensor | None, dtype: torch.dtype) -> None:
        self._weight, self._bias, self.dtype = weight, bias, dtype
        self.fp8 = isinstance(weight, Quantised)

    def __call__(self, x: Rows) -> torch.Tensor:
        return self.wide(x).to(self.dtype)

    def plus(self, x: Rows, residual: torch.Tensor) -> torch.Tensor:
        return (self.wide(x) + residual).to(residual.dtype)

    def wide(self, x: Rows) -> torch.Tensor:
        """The product in fp32, of what quantising has left where the weight is quantised."""
        if self.fp8:
            assert x.fp8 is not None and x.scale is not None, "these rows were made for another reader"
            values = x.fp8.float() * x.scale
        else:
            values = x.tensor.float()
        return F.linear(values, plain(self._weight).float(), None if self._bias is None else self._bias.float())


class ReferenceActivated:
    def __init__(self, linear: ReferenceLinear, activation: str) -> None:
        self._linear, self._function, self.fp8 = linear, function(activation), linear.fp8

    def __call__(self, x: Rows, into: Reader) -> Rows:
        return rows_for(self._function(self._linear.wide(x)).to(self._linear.dtype), into)


class ReferenceGated:
    """The product is written in the model's type before it is activated, as every device does."""

    def __init__(self, gate_up: ReferenceLinear, activation: str) -> None:
        self._gate_up, self._function, self.fp8 = gate_up, function(activation), gate_up.fp8

    def __call__(self, x: Rows, into: Reader) -> Rows:
        gate, up = self._gate_up(x).float().chunk(2, 1)
        return rows_for((self._function(gate) * up).to(self._gate_up.dtype), into)


class ReferenceNorm:
    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, eps: float, kind: str) -> None:
        self._weight, self._bias, self._eps, self._rms = weight, bias, eps, kind == "rms"

    def __call__(self, x: torch.Tensor, into: Reader | None) -> Rows:
        wide = x.float() if self._rms else x.float() - x.float().mean(-1, keepdim=True)
        scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self._eps) * self._weight
        return rows_for((scaled if self._bias is None else scaled + self._bias).to(x.dtype), into)

    def add(self, linear: Linear, h: Rows, x: torch.Tensor, into: Reader | None) -> tuple[torch.Tensor, Rows]:
        x = linear.plus(h, x)
        return x, self(x, into)

    def add_post(self, linear: Linear, h: Rows, x: torch.Tensor, into: Reader | None) -> Rows:
        return self(linear.plus(h, x), into)


class ReferenceOps:
    """``where`` its parameters are kept, and its steps run: a device, or what keeps them on one.

    ``precision`` says which products run in FP8: their factors are quantised, and multiplied as what is left of them.
    """

    def __init__(
        self,
        dtype: torch.dtype,
        where: Parameters | torch.device | str = "cpu",
        precision: Precision | None = None,
    ) -> None:
        self.dtype, self._precision = dtype, precision or Precision()
        self._parameters = where if isinstance(where, Parameters) else Parameters(where)
        self.device, self.reads_weights = self._parameters.device, self._parameters.reads

    def keep(self, tensor: torch.Tensor) -> torch.Tensor:
        return self._parameters.keep(tensor)

    def linear(self, weight: Weight, bias: torch.Tensor | None, site: Site) -> Linear:
        return self._linear(weight, bias, site)

    def activated(self, weight: Weight, bias: torch.Tensor | None, activation: str, site: Site) -> Activated:
        return ReferenceActivated(self._linear(weight, bias, site), activation)

    def gated(
        self, gate: Weight, up: Weight, biases: tuple[torch.Tensor, torch.Tensor] | None, activation: str, site: Site
    ) -> Activated:
        bias = joined(biases) if biases else None
        return ReferenceGated(self._linear(concatenate([gate, up]), bias, site), activation)

    def norm(
        self, weight: torch.Tensor, bias: torch.Tensor | None, eps: float, kind: Literal["layer", "rms"]
    ) -> ReferenceNorm:
        return ReferenceNorm(self.keep(weight), None if bias is None else self.keep(bias), eps, kind)

    def rows(self, x: torch.Tensor, into: Reader) -> Rows:
        return rows_for(x, into)

    def _linear(self, weight: Weight, bias: torch.Tensor | None, site: Site) -> ReferenceLinear:
        kept: Weight
        outputs, inputs = weight.shape
        if self._precision.quantises(outputs, inputs, site, held=isinstance(weight, Quantised)):
            quantised = weight if isinstance(weight, Quantised) else quantise_weight(weight)
            kept = Quantised(self.keep(quantised.values), self.keep(quantised.scales))
        else:
            kept = self.keep(plain(weight).to(self.dtype))
        return ReferenceLinear(kept, None if bias is None else self.keep(bias.to(self.dtype)), self.dtype)
