"""Rows in the form that their reader takes, and activations by name, in plain torch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch.nn import functional as F

from fastqps.kernels.torch_ops.rows import quantise_rows
from fastqps.models.card import ModelError
from fastqps.models.families.encoder import GATES
from fastqps.ops.interface import Reader, Rows

Function = Callable[[torch.Tensor], torch.Tensor]
_TANH: Function = partial(F.gelu, approximate="tanh")
_FUNCTIONS: dict[str, Function] = {
    "gelu": F.gelu,
    "gelu_new": _TANH,
    "gelu_fast": _TANH,
    "gelu_pytorch_tanh": _TANH,
    "relu": F.relu,
    "silu": F.silu,
}


def function(activation: str) -> Function:
    """``ModelError`` if it is none of ``GATES``."""
    if activation not in _FUNCTIONS:
        raise ModelError(f"activation {activation!r} is not supported; supported: {', '.join(GATES)}")
    return _FUNCTIONS[activation]


def rows_for(x: torch.Tensor, into: Reader | None) -> Rows:
    """x [rows, width] with what ``into`` reads of it."""
    return Rows(x, *quantise_rows(x)) if into is not None and into.fp8 else Rows(x)
