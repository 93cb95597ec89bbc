"""NVIDIA's machine code, read by the tools that come with Triton."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

from bench.kernels.machine_code import Chip, MachineCode, run_tool

# Instructions by what they tell, on sm_80 to sm_90.
_INSTRUCTIONS = {
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
_REGISTERS, _WARPS_MAX, _BLOCKS_MAX = 65536, 64, 32  # of one multiprocessor, sm_80 and sm_90
_RESERVED_BYTES = 1 << 10  # of shared memory, by every resident program
_FP8_MIN = 89
SHARED_BYTES = {80: 164 << 10, 89: 100 << 10, 90: 228 << 10}  # of one multiprocessor


class NvidiaTarget:
    """``capability``: compute capability × 10."""

    # 132 multiprocessors, each with 4 schedulers at 1.755 GHz
    chip = Chip("an H200", 4.3e12, 790e12, 132 * 4 * 1.755e9)

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
        counts = {name: len(re.findall(pattern, code)) for name, pattern in _INSTRUCTIONS.items()}
        counts["all"] = len(re.findall(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?!.*\b(?:NOP|BRA `)).*;", code, re.MULTILINE))
        return MachineCode(used["REG"], used["STACK"] + used["LOCAL"], counts, counts["all"])

    def occupancy(self, warps: int, registers: int, shared_bytes: int) -> float:
        per_warp = -(-registers * 32 // 256) * 256  # registers are given out by 256
        programs = min(
            _BLOCKS_MAX,
            _WARPS_MAX // warps,
            _REGISTERS // per_warp // warps,
            SHARED_BYTES[self._capability] // (shared_bytes + _RESERVED_BYTES),
        )
        return programs * warps / _WARPS_MAX

    def compiler(self) -> str:
        from triton import knobs

        said = run_tool(knobs.nvidia.ptxas.path, "--version")
        found = re.search(r"release [\w., ]+", said)
        return f"ptxas {found.group() if found else said}"


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
        code = run_tool(knobs.nvidia.cuobjdump.path, "-res-usage", "-sass", cubin.name)
    cache.put(code, name, binary=False)
    return code
