"""Products of heads on the CPU."""

from __future__ import annotations

import torch

from fastqps.ops.cpu.strips import Strips
from fastqps.ops.step import address


class CpuProjection:
    """x float32 [rows, inputs] → x · weightᵀ + bias [rows, outputs], each row as if it were alone."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self._strips = Strips(weight.float().numpy(), None if bias is None else bias.float().numpy())

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        assert x.dtype == torch.float32 and x.is_contiguous()
        out = x.new_empty(len(x), self._strips.outputs)
        self._strips.write(address(out), address(x), len(x), torch.get_num_threads())
        return out
