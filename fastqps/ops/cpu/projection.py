"""Products of heads on the CPU: torch's gives a row other bits by the number of rows beside it."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from fastqps import _core
from fastqps.ops.step import address

_STRIP = 16  # outputs that lie together


class CpuProjection:
    """x float32 [rows, inputs] → x · weightᵀ + bias [rows, outputs], each row as if it were alone."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self._outputs, self._inputs = weight.shape
        padded = F.pad(weight.float(), (0, 0, 0, -self._outputs % _STRIP))
        self._strips = padded.view(-1, _STRIP, self._inputs).transpose(1, 2).contiguous()
        self._bias = None if bias is None else bias.float().contiguous()

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        assert x.dtype == torch.float32 and x.is_contiguous()
        out = x.new_empty(len(x), self._outputs)
        factors = address(self._strips), address(self._bias)
        _core.project(address(out), address(x), len(x), *factors, self._inputs, self._outputs, torch.get_num_threads())
        return out
