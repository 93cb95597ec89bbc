"""The results of operations that return several, computed by a kernel or by plain torch."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch

Activation = Literal["gelu", "gelu_tanh", "relu", "silu"]
Pooled = Literal["cls", "lasttoken", "mean", "max"]  # an item's first row, its last one, the mean, the largest numbers


class Activated(NamedTuple):
    """Each is None where it was not asked for."""

    values: torch.Tensor | None  # in the input's type
    fp8: torch.Tensor | None  # float8_e4m3fn
    scale: torch.Tensor | None  # float32 [rows, 1]


class Normed(NamedTuple):
    """Each is None where it was not asked for. All have as many rows as the input."""

    sum: torch.Tensor | None  # x + residual, in the model's type
    values: torch.Tensor | None  # the norm of that sum, in the model's type
    fp8: torch.Tensor | None  # the norm, float8_e4m3fn
    scale: torch.Tensor | None  # float32 [rows, 1]


class Embedded(NamedTuple):
    """``values``, ``fp8`` and ``scale`` are None where they were not asked for.

    ``row_start`` and ``row_end``, int32 [tokens], are the tokens of each row's item, the second exclusive; both are
    n_tokens in padding rows.
    """

    values: torch.Tensor | None  # [tokens, width], in the tables' type
    fp8: torch.Tensor | None  # float8_e4m3fn [tokens, width]
    scale: torch.Tensor | None  # float32 [tokens, 1]
    row_start: torch.Tensor
    row_end: torch.Tensor


def check_contiguous(**tensors: torch.Tensor | None) -> None:
    """``ValueError`` with the name of a tensor whose numbers do not lie one behind the other."""
    for name, tensor in tensors.items():
        if tensor is not None and not tensor.is_contiguous():
            raise ValueError(f"{name} {list(tensor.shape)} is not contiguous: its strides are {tensor.stride()}")
