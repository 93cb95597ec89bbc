"""One packed batch as the models see it."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Step:
    """``ids``, ``positions``, ``types``: int32 [tokens]; ``starts``: int32 [items + 1], from 0 to tokens."""

    ids: torch.Tensor
    positions: torch.Tensor
    types: torch.Tensor
    starts: torch.Tensor


def address(tensor: torch.Tensor | None) -> int:
    """Where a contiguous tensor's numbers begin, or 0: what the C++ kernels take."""
    return 0 if tensor is None else tensor.data_ptr()
