"""Reads a compiled kernel's machine code, and names the GPUs that kernels are compiled for.

NVIDIA's is read by the tools that come with Triton, AMD's from the assembly text and the metadata that LLVM writes
behind it.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True)
class MachineCode:
    """``instructions``: how often each kind stands in the code; "all" is all of it."""

    registers: int  # per thread
    spill_bytes: int  # of local memory per thread: spilled registers, or arrays that do not fit them
    instructions: dict[str, int]


class Target(Protocol):
    """A GPU that kernels are compiled for."""

    name: str  # "sm_90", "gfx942"
    fp8: bool  # it converts to float8 and multiplies it

    def compiled_for(self) -> Any:
        """Triton's ``GPUTarget``."""

    def read(self, kernel: Any) -> MachineCode:
        """The machine code of one of Triton's compiled kernels."""

    def occupancy(self, warps: int, registers: int, shared_bytes: int) -> float:
        """The share of a multiprocessor's warp slots that programs of this size can fill, by registers and memory."""

    def compiler(self) -> str:
        """The compiler that made the machine code, with its version."""


# Instructions by what they tell, on sm_80 to sm_90.
_NVIDIA = {
    "wgmma": r"\bHGMMA\b|\bQGMMA\b|\bIGMMA\b",  # matrix product of four warps
    "mma": r"\bHMMA\b",  # matrix product of one warp
    "async_copy": r"\bLDGSTS\b",  # global to shared memory, past the registers
    "load_16_bytes": r"\bLDG\.E(?:\.\w+)*\.128\b",
    "store_16_bytes": r"\bSTG\.E(?:\.\w+)*\.128\b",
    "special": r"\bMUFU\b",  # exponentials, roots, reciprocals: a quarter of the rate of others, or less
    "load": r"\bLDG\b",
    "store": r"\bSTG\b",
    "local": r"\b(?:LDL|STL)\b",  # spilled registers, or arrays that do not fit them
}
_NVIDIA_REGISTERS, _WARPS_MAX, _BLOCKS_MAX = 65536, 64, 32  # of one multiprocessor, sm_80 and sm_90
_RESERVED_BYTES = 1 << 10  # of shared memory, by every resident program
_FP8_MIN = 89
SHARED_BYTES = {80: 164 << 10, 89: 100 << 10, 90: 228 << 10}  # of one multiprocessor


class NvidiaTarget:
    """``capability``: compute capability × 10."""

    def __init__(self, capability: int) -> None:
        self.name = f"sm_{capability}"
        self.fp8 = capability >= _FP8_MIN
        self._capability = capability

    def compiled_for(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self._capability, 32)

    def read(self, kernel: Any) -> MachineCode:
        code = _disassembled(kernel)
        used = {name: int(size) for name, size in re.findall(r"\b(REG|STACK|LOCAL):(\d+)", code)}
        counts = {name: len(re.findall(pattern, code)) for name, pattern in _NVIDIA.items()}
        counts["all"] = len(re.findall(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?!.*\b(?:NOP|BRA `)).*;", code, re.MULTILINE))
        return MachineCode(used["REG"], used["STACK"] + used["LOCAL"], counts)

    def occupancy(self, warps: int, registers: int, shared_bytes: int) -> float:
        per_warp = -(-registers * 32 // 256) * 256  # registers are given out by 256
        programs = min(
            _BLOCKS_MAX,
            _WARPS_MAX // warps,
            _NVIDIA_REGISTERS // per_warp // warps,
            SHARED_BYTES[self._capability] // (shared_bytes + _RESERVED_BYTES),
        )
        return programs * warps / _WARPS_MAX

    def compiler(self) -> str:
        from triton import knobs

        output = _run(knobs.nvidia.ptxas.path, "--version")
        release = re.search(r"release [\w., ]+", output)
        return f"ptxas {release.group() if release else output}"


def _disassembled(kernel: Any) -> str:
    """The resources and instructions of a kernel. Kept in Triton's cache: the tool takes longer than the compiler."""
    from triton import knobs
    from triton.runtime.cache import get_cache_manager

    cache, name = get_cache_manager(kernel.hash), f"{kernel.name}.sass"
    if known := cache.get_file(name):
        return Path(known).read_text()
    with tempfile.NamedTemporaryFile(suffix=".cubin") as cubin:
        cubin.write(kernel.asm["cubin"])
        cubin.flush()
        code = _run(knobs.nvidia.cuobjdump.path, "-res-usage", "-sass", cubin.name)
    cache.put(code, name, binary=False)
    return code


def _run(*command: str) -> str:
    """The output of a program that reads machine code."""
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


# Instructions by what they tell, on gfx942 and gfx950.
_AMD = {
    "mfma": r"v_mfma_\w+",  # matrix product of one wave
    "to_fp8": r"v_cvt_\w*fp8_f32",  # of its own format; to the other one takes a dozen instructions
    "load_16_bytes": r"(?:global|buffer)_load_dwordx4",
    "store_16_bytes": r"(?:global|buffer)_store_dwordx4",
    "special": r"v_(?:exp|log|rcp|rsq|sqrt|sin|cos)_\w+",
    "load": r"(?:global|buffer|flat)_load_\w+",
    "store": r"(?:global|buffer|flat)_store_\w+",
    "local": r"scratch_\w+",
    "all": r"[a-z]\w+",
}
_SIMDS = 4  # of one compute unit
_WAVES_MAX = 8  # of a SIMD
_AMD_REGISTERS = 512  # of each lane of a SIMD, given out by 8
_PROGRAMS_MAX = 16  # of a compute unit, where they are of more than one wave
LDS_BYTES = {"gfx942": 64 << 10, "gfx950": 160 << 10}  # of one compute unit


class AmdTarget:
    """``architecture``: a key of ``LDS_BYTES``."""

    fp8 = True

    def __init__(self, architecture: str) -> None:
        self.name = architecture

    def compiled_for(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("hip", self.name, 64)

    def read(self, kernel: Any) -> MachineCode:
        return _read_assembly(kernel.asm["amdgcn"])

    def occupancy(self, warps: int, registers: int, shared_bytes: int) -> float:
        per_simd = min(_WAVES_MAX, _AMD_REGISTERS // (-(-max(registers, 1) // 8) * 8))
        programs = min(
            _SIMDS * _WAVES_MAX if warps == 1 else _PROGRAMS_MAX,
            _SIMDS * per_simd // warps,
            LDS_BYTES[self.name] // max(1, shared_bytes),
        )
        return programs * warps / (_SIMDS * _WAVES_MAX)

    def compiler(self) -> str:
        return "with its LLVM"


def _read_assembly(text: str) -> MachineCode:
    """Reads the assembly of one kernel. Its private segment holds spilled vector registers; scalar ones are spilled
    to vector ones."""
    used = {name: int(size) for name, size in re.findall(r"^\s+\.(\w+):\s+(\d+)$", text, re.MULTILINE)}
    code = re.findall(r"^\t([a-z]\w+.*)$", text, re.MULTILINE)
    counts = {name: sum(bool(re.match(p, line)) for line in code) for name, p in _AMD.items()}
    return MachineCode(used["vgpr_count"], used["private_segment_fixed_size"], counts)
