"""Activations by name, in plain torch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch.nn import functional as F

from fastqps.errors import ModelError
from fastqps.kernels.results import Activation
from fastqps.models.families.encoder import GATES

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

# Of heads, in float32.
HEAD_FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "identity": lambda x: x,
    "tanh": torch.tanh,
    "relu": F.relu,
    "gelu": F.gelu,
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
}


def kind_of(activation: str) -> Activation:
    """``ModelError`` if it is none of ``GATES``."""
    if activation not in KINDS:
        raise ModelError(f"activation {activation!r} is not supported; supported: {', '.join(GATES)}")
    return KINDS[activation]


def gate_halves(both: torch.Tensor, kind: Activation) -> torch.Tensor:
    """The activation of the first half of each row, times the second half."""
    gate, up = both.chunk(2, 1)
    return FUNCTIONS[kind](gate) * up
