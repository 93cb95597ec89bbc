"""The choice of a model's matrix products that run in FP8 on a GPU."""

from __future__ import annotations

from fastqps.devices.cuda.backend import Backend
from fastqps.devices.errors import DeviceError
from fastqps.devices.place import Place
from fastqps.ops.fp8 import refused
from fastqps.ops.precision import QUANTIZATIONS, Precision
from fastqps.terminal import say


def make_precision(place: Place, backend: Backend) -> Precision:
    """``DeviceError`` for an unknown quantization, for ``int8``, and for ``fp8`` on a GPU that has none."""
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
    return Precision(place.quantization)
