"""Vendor-specific features of GPUs: the clock instruction and the register limit.

No other module names them. The target is known when a kernel is compiled, so neither vendor pays for the other.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language import core
from triton.language.extra.cuda import globaltimer
from triton.language.target_info import current_target, is_hip

_TICK_NS = tl.constexpr(10)  # of s_memrealtime, which counts at 100 MHz on gfx942 and gfx950
_AMD_REGISTERS = 512  # of each lane of a SIMD, for all the waves that are resident on it
_AMD_WAVES_MAX = 8  # of a SIMD
_AMD_MARGIN = 32


@core.extern
def _realtime(_semantic=None):
    # Not Triton's memrealtime: it waits for vmcnt, but scalar instructions such as this one are counted by lgkmcnt.
    return core.inline_asm_elementwise(
        "s_memrealtime $0\ns_waitcnt lgkmcnt(0)",
        "=r",
        [],
        dtype=core.int64,
        is_pure=False,
        pack=1,
        _semantic=_semantic,
    )


@triton.jit
def device_clock_ns():
    """int64: the device's clock, which all of its programs share and which does not change with its frequency."""
    if is_hip():
        return _realtime() * _TICK_NS
    else:
        return globaltimer()


def register_limit(registers: int | None) -> dict[str, int]:
    """Launch options that make the compiler use at most so many registers for each thread; None: no limit."""
    if registers is None:
        return {}
    if is_hip():
        # The same program takes some more registers there: without a margin attention spills on gfx942.
        return {"waves_per_eu": min(_AMD_WAVES_MAX, _AMD_REGISTERS // (registers + _AMD_MARGIN))}
    return {"maxnreg": registers}


def architecture() -> str:
    """The architecture that kernels are compiled for: "sm_90", "gfx942"; "" without a GPU, as for the interpreter."""
    target = current_target()
    if target is None:
        return ""
    return f"sm_{target.arch}" if target.backend == "cuda" else str(target.arch)
