"""Norms at other places than in front of a block: of what it gives, or of the sum behind it."""

from __future__ import annotations

import torch

from fastqps.ops.interface import Linear, Norm, Ops, Reader, Rows


class NormedLinear:
    """A product and the norm behind it, as one product: what the block gives is normalised before it is added."""

    def __init__(self, linear: Linear, norm: Norm, ops: Ops) -> None:
        self._linear, self._norm, self._ops, self.fp8 = linear, norm, ops, linear.fp8

    def __call__(self, x: Rows) -> torch.Tensor:
        return self._norm(self._linear(x), None).tensor

    def add_residual(self, x: Rows, residual: torch.Tensor) -> torch.Tensor:
        return self._ops.add(residual, self(x))


class SumNorm:
    """In the place of a norm before a block, of which the residual keeps the sum.

    The block reads the residual as it is, which is the sum, normalised if there is a ``norm``.
    """

    def __init__(self, ops: Ops, norm: Norm | None = None) -> None:
        self._ops, self._norm = ops, norm

    def __call__(self, x: torch.Tensor, reader: Reader) -> Rows:
        return self._ops.rows(x, reader)

    def add(self, linear: Linear, h: Rows, x: torch.Tensor, reader: Reader) -> tuple[torch.Tensor, Rows]:
        if self._norm is None:
            x = linear.add_residual(h, x)
            return x, self(x, reader)
        rows = self._norm.add_post(linear, h, x, reader)
        return rows.tensor, rows
