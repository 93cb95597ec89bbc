"""The 8-bit floating-point format of a device's matrix products. Imports no Triton.

Both formats have 4 bits of exponent and 3 of mantissa. e4m3fn is the format of the Open Compute Project: NVIDIA's GPUs,
AMD's from gfx950 on, checkpoints and the CPU have it. gfx942 (MI300) has e4m3fnuz: the exponent's bias is 8 and not 7,
so each bit pattern is half the number, there is no negative zero, and its pattern 0x80 is the only NaN.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch


class Float8Format(NamedTuple):
    """``largest``: the largest number that it holds."""

    dtype: torch.dtype
    largest: float


E4M3FN = Float8Format(torch.float8_e4m3fn, 448.0)
E4M3FNUZ = Float8Format(torch.float8_e4m3fnuz, 240.0)


def format_of(architecture: str) -> Float8Format:
    """The format of a GPU's architecture ("sm_90", "gfx942:sramecc+:xnack-"); "": of the CPU."""
    return E4M3FNUZ if architecture.startswith("gfx94") else E4M3FN


@cache
def format_on(device: torch.device) -> Float8Format:
    """The format of a device of torch."""
    if device.type != "cuda" or torch.version.hip is None:
        return format_of("")
    return format_of(torch.cuda.get_device_properties(device).gcnArchName)
