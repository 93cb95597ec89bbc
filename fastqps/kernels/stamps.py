"""When the device started and ended a step, by its own clock: int64 [2], nanoseconds, from its first and last kernel.

The interpreter has no such clock: kernels then write no stamps.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from fastqps.kernels.vendor import device_clock_ns

_INTERPRETED = bool(triton.knobs.runtime.interpret)


def stamped(stamps: torch.Tensor | None) -> torch.Tensor | None:
    """The argument that launchers pass to kernels: ``stamps``, or None where there is no clock to write them from."""
    return None if _INTERPRETED else stamps


@triton.jit
def stamp_start(stamps):
    """Stamps the start of a step, in one program of its first kernel. Empties the end, where the last kernel counts."""
    tl.store(stamps, device_clock_ns())
    tl.store(stamps + 1, 0)


@triton.jit
def stamp_end(stamps):
    """Stamps the end of a step, in every program of its last kernel, behind all stores. The last one reads the clock.

    Until then the end's place counts those that have come.
    """
    programs = tl.num_programs(0) * tl.num_programs(1) * tl.num_programs(2)
    if tl.atomic_add(stamps + 1, 1, sem="relaxed") == programs - 1:
        tl.store(stamps + 1, device_clock_ns())


@triton.jit
def stamp_end_kernel(stamps):
    stamp_end(stamps)


def end_step(stamps: torch.Tensor) -> None:
    """The end of a step whose last kernel is none of this package."""
    if stamped(stamps) is not None:
        stamp_end_kernel[(1,)](stamps, num_warps=1)
