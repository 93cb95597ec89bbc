"""Whether a kernel computes what the operation in plain torch does, on random input of the shapes that a model has.

``shape_of`` says what of a call's arguments Triton compiles a kernel for, and ``TOLERANCES`` how far two results may be
apart. ``inputs``, ``encoder_inputs`` and ``decoder_inputs`` make a small random step in place of a call's arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from inspect import Signature, signature
from typing import Any, NamedTuple

import torch

from fastqps.kernels.checks.decoder_inputs import DECODER_INPUTS
from fastqps.kernels.checks.encoder_inputs import ENCODER_INPUTS
from fastqps.kernels.checks.inputs import Random
from fastqps.kernels.layers import Attention, LogitChanges, Tables
from fastqps.kernels.shapes import row_shape, search_shape


class Tolerance(NamedTuple):
    """``largest``: of one number, as a share of itself and of the root mean square. ``relative``: of all together."""

    largest: float
    relative: float


TOLERANCES = {
    torch.float32: Tolerance(1e-4, 2.5e-5),
    torch.float16: Tolerance(4e-3, 1e-3),
    torch.bfloat16: Tolerance(3e-2, 7.5e-3),
    torch.float8_e4m3fn: Tolerance(1 / 8, 3e-2),  # to the next number, and that seldom
    torch.float8_e4m3fnuz: Tolerance(1 / 8, 3e-2),
}
_FP8_FLOOR = 2.0**-7  # of rows scaled to the largest number: at least four steps between the smallest ones


@dataclass(frozen=True)
class Difference:
    """The deviation of a result. ``largest`` is an absolute error; infinite if only one of the two is a number."""

    result: str
    largest: float
    relative: float
    tolerance: Tolerance | None  # None: of what has to be equal

    def __str__(self) -> str:
        allowed = f"of {self.tolerance.relative:g} allowed" if self.tolerance else "it has to be equal"
        return f"{self.result}: largest error {self.largest:.3g}, relative error {self.relative:.3g} ({allowed})"


def compare(result: str, computed: torch.Tensor, expected: torch.Tensor) -> Difference | None:
    """None: they agree. ``ValueError`` where they are not of one shape and type."""
    if (computed.shape, computed.dtype) != (expected.shape, expected.dtype):
        raise ValueError(
            f"{result} is {computed.dtype} {list(computed.shape)}, not {expected.dtype} {list(expected.shape)}"
        )
    tolerance = TOLERANCES.get(expected.dtype)
    a, b = computed.double(), expected.double()
    same = (a == b) | (a.isnan() & b.isnan())
    error = torch.where(same, 0.0, (a - b).abs().nan_to_num(torch.inf, posinf=torch.inf))
    size = torch.where(b.isfinite(), b, 0.0)
    rms = _rms(size)
    largest, relative = float(error.max()) if error.numel() else 0.0, float(_rms(error) / rms.clamp(min=1e-30))
    if tolerance is None:
        return None if bool(same.all()) else Difference(result, largest, relative, None)
    floor = _FP8_FLOOR if expected.dtype.itemsize == 1 else tolerance.largest * rms
    agree = (error <= tolerance.largest * size.abs() + floor).all() and relative <= tolerance.relative
    return None if agree else Difference(result, largest, relative, tolerance)


def _rms(x: torch.Tensor) -> torch.Tensor:
    return x.square().mean().sqrt() if x.numel() else x.new_zeros(())


INPUTS = ENCODER_INPUTS | DECODER_INPUTS

__all__ = ["INPUTS", "Difference", "arguments_of", "check", "shape_of"]


def check(
    name: str, kernel: Callable[..., Any], plain: Callable[..., Any], arguments: dict[str, Any]
) -> Difference | None:
    """Runs both on the same random step; what differs by more than it may, or None. Waits for the device.

    ``arguments`` are those of a model's call. Types, strides and parameters are taken from them, and they are not
    written. Raises what the kernel or its compiler raises.
    """
    case = INPUTS[name](Random(arguments), arguments)
    computed, expected = case.run(kernel), case.run(plain)
    return next(filter(None, (compare(result, computed[result], expected[result]) for result in expected)), None)


def arguments_of(plain: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call of an operation by their names, defaults included."""
    bound = _signature(plain).bind(*args, **named)
    bound.apply_defaults()
    return bound.arguments


def shape_of(name: str, arguments: dict[str, Any]) -> str:
    """``x=bfloat16[:,384] eps=1e-12 kind=layer``: arguments that are None or False are left out."""
    flat: dict[str, Any] = {}
    for key, value in arguments.items():
        flat |= vars(value) if isinstance(value, Attention | LogitChanges | Tables) else {key: value}
    parts = {key: _part(value) for key, value in flat.items() if value is not None and value is not False}
    if name == "embed_norm":  # how items are found depends on how many there can be
        search = search_shape(len(arguments["cu_seqlens"]))
        parts["cu_seqlens"] += f"/{search.scan}x{search.stride}"
        parts["ids"] += f"/{row_shape(flat['words'].shape[1], len(arguments['ids'])).rows}"
    if name == "add_norm":  # how many rows a program has depends on how many there are
        rows, width = arguments["x"].shape
        parts["x"] += f"/{row_shape(width, rows).rows}"
    if name in ("logit_options", "sample"):
        parts["eos_ids"] = f"{len(flat['eos_ids'])}"
    return " ".join(f"{key}={part}" for key, part in parts.items())


def _part(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}[{','.join([':', *map(str, value.shape[1:])])}]"
    return str(value)


@cache
def _signature(plain: Callable[..., Any]) -> Signature:
    return signature(plain)
