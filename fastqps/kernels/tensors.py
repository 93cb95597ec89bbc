"""The checks of launchers on their tensors: kernels see addresses alone."""

from __future__ import annotations

import torch


def check_contiguous(**tensors: torch.Tensor | None) -> None:
    """``ValueError`` with the name of a tensor whose numbers do not lie one behind the other."""
    for name, tensor in tensors.items():
        if tensor is not None and not tensor.is_contiguous():
            raise ValueError(f"{name} {list(tensor.shape)} is not contiguous: its strides are {tensor.stride()}")
