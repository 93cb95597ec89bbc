"""The arguments of a call that decide which code runs: all but the number of rows and the tensors' values."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import Signature, signature
from typing import Any

import torch

from fastqps.kernels.shapes import row_shape, search_shape


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
