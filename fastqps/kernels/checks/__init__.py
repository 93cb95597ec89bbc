"""Whether a kernel computes what the operation in plain torch does, on random input of the shapes that a model has.

* ``shape``: what of a call's arguments Triton compiles a kernel for, in words.
* ``inputs``, ``encoder_inputs``, ``decoder_inputs``: a small random step in place of a call's arguments.
* ``agreement``: how far two results may be apart.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import Signature, signature
from typing import Any

import torch

from fastqps.kernels.checks.agreement import Difference, compare
from fastqps.kernels.checks.decoder_inputs import DECODER_INPUTS
from fastqps.kernels.checks.encoder_inputs import ENCODER_INPUTS
from fastqps.kernels.checks.inputs import Random
from fastqps.kernels.shapes import row_shape, search_shape

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
    found, wanted = case.run(kernel), case.run(plain)
    return next(filter(None, (compare(result, found[result], wanted[result]) for result in wanted)), None)


def arguments_of(plain: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call of an operation by their names, defaults included."""
    bound = _signature(plain).bind(*args, **named)
    bound.apply_defaults()
    return bound.arguments


def shape_of(name: str, arguments: dict[str, Any]) -> str:
    """``x=bfloat16[:,384] eps=1e-12 kind=layer``: arguments that are None or False are left out."""
    parts = {key: _part(value) for key, value in arguments.items() if value is not None and value is not False}
    if name == "embed_norm":  # how items are found depends on how many there can be
        search = search_shape(len(arguments["cu_seqlens"]))
        parts["cu_seqlens"] += f"/{search.scan}x{search.stride}"
        parts["ids"] += f"/{row_shape(arguments['words'].shape[1], len(arguments['ids'])).rows}"
    if name == "add_norm":  # how many rows a program has depends on how many there are
        rows, width = arguments["x"].shape
        parts["x"] += f"/{row_shape(width, rows).rows}"
    if name in ("logit_options", "sample"):
        parts["eos_ids"] = f"{len(arguments['eos_ids'])}"
    return " ".join(f"{key}={part}" for key, part in parts.items())


def _part(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}[{','.join([':', *map(str, value.shape[1:])])}]"
    return str(value)


@cache
def _signature(plain: Callable[..., Any]) -> Signature:
    return signature(plain)
