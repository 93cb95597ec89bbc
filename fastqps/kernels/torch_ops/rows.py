"""Operations on each row by itself: norms, activations, float8."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from torch.nn import functional as F

from fastqps.kernels.float8_format import format_on
from fastqps.kernels.results import Activated, Activation, Normed

_SMALLEST = 1e-12  # a row of zeros is scaled as if this were its largest: its scale must not be 0
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
    """x [rows, width] → (float8 [rows, width], float32 [rows, 1]): each row over its largest number / 448.

    The format is that of the device; where it is e4m3fnuz, 240 takes the place of 448. The kernels of norms and
    activations do the same, from the fp32 numbers that they have at hand.
    """
    x, (e4m3, format_max) = x.float(), format_on(x.device)
    largest = x.abs().amax(-1, keepdim=True).clamp(min=_SMALLEST)  # NaN passes both
    # The largest number becomes 448 or its fp32 neighbour, which rounds to 448. Nothing overflows.
    return (x * (format_max / largest)).to(e4m3), largest / format_max


def add_norm(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    eps: float,
    kind: Literal["layer", "rms"],
    *,
    residual: torch.Tensor | None = None,
    count: torch.Tensor | None = None,
    return_sum: bool = False,
    return_values: bool = True,
    return_fp8: bool = False,
) -> Normed:
    """norm(x + residual) · weight + bias, of the rounded sum where that is wanted."""
    exact = x.float() if residual is None else x.float() + residual.float()
    total = exact.to(x.dtype) if return_sum else None
    if total is not None:
        exact = total.float()
    return Normed(
        total, *scaled(normalised(exact, eps, kind == "rms"), weight, bias, x.dtype, return_values, return_fp8)
    )


def scaled(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    dtype: torch.dtype,
    return_values: bool,
    return_fp8: bool,
) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
    """x · weight + bias as the three last results of a norm."""
    out = x if weight is None else x * weight.float()
    if bias is not None:
        out = out + bias.float()
    return converted(out, dtype, return_values, return_fp8)


def converted(
    x: torch.Tensor, dtype: torch.dtype, return_values: bool, return_fp8: bool
) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
    """float32 x in ``dtype``, and quantised, where that is wanted."""
    fp8, scale = quantise_rows(x) if return_fp8 else (None, None)
    return x.to(dtype) if return_values else None, fp8, scale


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
