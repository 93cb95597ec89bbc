"""Rows in the form that their reader takes, and activations by name, in plain torch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch.nn import functional as F

from fastqps.errors import ModelError
from fastqps.kernels.results import Activation
from fastqps.kernels.torch_ops.rows import quantise_rows
from fastqps.models.families.encoder import GATES
from fastqps.ops.interface import Reader, Rows

# hidden_act of config.json -> what the kernels call it.
KINDS: dict[str, Activation] = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
}
FUNCTIONS: dict[Activation, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
}


def kind_of(activation: str) -> Activation:
    """``ModelError`` if it is none of ``GATES``."""
    if activation not in KINDS:
        raise ModelError(f"activation {activation!r} is not supported; supported: {', '.join(GATES)}")
    return KINDS[activation]


def rows_for(x: torch.Tensor, reader: Reader | None) -> Rows:
    """x [rows, width] with what ``reader`` reads of it."""
    return Rows(x, *quantise_rows(x)) if reader is not None and reader.fp8 else Rows(x)
