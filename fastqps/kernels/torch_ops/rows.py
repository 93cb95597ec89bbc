"""Operations on each row by itself: norms, activations, float8."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from torch.nn import functional as F

from fastqps.kernels.float8_format import format_on
from fastqps.kernels.results import Activated, Activation, Normed

_SMALLEST = 1e-12  # an empty row's largest: its scale stays a normal number
_FUNCTIONS: dict[Activation, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
}


def normalised(x: torch.Tensor, eps: float, rms: bool) -> torch.Tensor:
    """float32 [..., width] over its root mean square; from its mean unless ``rms``."""
    if not rms:
        x = x - x.mean(-1, keepdim=True)
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


def quantise_rows(x: torch.Tensor, count: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """x [rows, width] → [rows, width] in the device's float8, and float32 [rows, 1] by which it is to be multiplied."""
    format = format_on(x.device)
    x = x.float()
    largest = x.abs().amax(-1, keepdim=True).clamp(min=_SMALLEST)
    return (x * (format.largest / largest)).to(format.dtype), largest / format.largest


def add_norm(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    eps: float,
    kind: Literal["layer", "rms"],
    *,
    residual: torch.Tensor | None = None,
    count: torch.Tensor | None = None,
    want_sum: bool = False,
    want_values: bool = True,
    want_fp8: bool = False,
) -> Normed:
    """norm(x + residual) · weight + bias, of the rounded sum where that is wanted."""
    wide = x.float() if residual is None else x.float() + residual.float()
    total = wide.to(x.dtype) if want_sum else None
    if total is not None:
        wide = total.float()
    return Normed(total, *scaled(normalised(wide, eps, kind == "rms"), weight, bias, x.dtype, want_values, want_fp8))


def scaled(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    dtype: torch.dtype,
    want_values: bool,
    want_fp8: bool,
) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
    """x · weight + bias as the three last results of a norm."""
    out = x * weight.float()
    if bias is not None:
        out = out + bias.float()
    fp8, scale = quantise_rows(out) if want_fp8 else (None, None)
    return out.to(dtype) if want_values else None, fp8, scale


def activate(
    x: torch.Tensor,
    kind: Activation,
    *,
    gated: bool = False,
    fp8: bool = False,
    count: torch.Tensor | None = None,
) -> Activated:
    """act(x), or gated: act(first half) · second half; as float8 alone with ``fp8``."""
    first, *second = x.float().chunk(2, 1) if gated else (x.float(),)
    out = _FUNCTIONS[kind](first)
    for gate in second:
        out = out * gate
    return Activated(None, *quantise_rows(out)) if fp8 else Activated(out.to(x.dtype), None, None)
