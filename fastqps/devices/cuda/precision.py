"""The choice of a model's matrix products that run in FP8 on a GPU."""

from __future__ import annotations

from collections.abc import Callable

import torch

from fastqps.devices.cuda.backend import Backend
from fastqps.devices.errors import DeviceError
from fastqps.devices.place import Place
from fastqps.kernels.operations import Operations
from fastqps.ops.fp8 import refused
from fastqps.ops.precision import QUANTIZATIONS, Precision, Product
from fastqps.terminal import say

_FUSED = ("qkv", "up", "down")  # norms and activations write FP8 themselves; only attention does not
_ROWS_MIN = 16


def encoder_rows(max_tokens: int) -> tuple[int, ...]:
    """Sizes of steps that ``auto`` goes by: from a light load to full batches."""
    return tuple(sorted({max(_ROWS_MIN, max_tokens // share) for share in (16, 4, 1)}))


def decoder_rows(slots: int, max_tokens: int) -> tuple[int, ...]:
    """The row counts to measure for a decoder: few sequences, all that can run, and as many with prompts."""
    return tuple(sorted({min(max_tokens, rows) for rows in (_ROWS_MIN, slots, 3 * slots)}))


def make_precision(
    place: Place, backend: Backend, dtype: torch.dtype, rows: tuple[int, ...], kernels: Operations | None = None
) -> Precision:
    """``DeviceError`` for an unknown quantization, for ``int8``, and for ``fp8`` on a GPU that has none.

    ``kernels`` quantise rows where ``auto`` measures; unless given, the own kernels.
    """
    if place.quantization not in QUANTIZATIONS:
        raise DeviceError(f"no quantization {place.quantization!r}; there is: {', '.join(QUANTIZATIONS)}")
    if place.quantization == "int8":
        raise DeviceError(f"--quantization int8: {backend.where} multiplies in no int8, only cpu does; use fp8 or auto")
    if place.quantization != "none" and (reason := refused(backend.device)):
        if place.quantization == "fp8":
            raise DeviceError(
                f"--quantization fp8: {backend.where} multiplies no FP8; GPUs from compute capability 8.9 on do, and "
                f"AMD's from gfx942 on. torch says: {reason}"
            )
        say(f"quantization auto: {backend.where} multiplies no FP8: {reason}")
        return Precision("none")
    return Precision(place.quantization, rows, _product_times(backend, dtype, kernels), _FUSED)


def _product_times(
    backend: Backend, dtype: torch.dtype, kernels: Operations | None
) -> Callable[[Product, bool], float]:
    if backend.device.type != "cuda":
        from fastqps.ops.cpu import product_times as cpu_product_times

        return cpu_product_times.product_times(dtype, "fp8")
    from fastqps.ops.cuda import product_times as cuda_product_times

    return cuda_product_times.product_times(dtype, backend.device, kernels)
