"""AMD's machine code, read from the assembly text and the metadata that LLVM writes behind it."""

from __future__ import annotations

import re
from typing import Any

from bench.kernels.machine_code import Chip, MachineCode

# Instructions by what they tell, on gfx942 and gfx950.
_INSTRUCTIONS = {
    "mfma": r"v_mfma_\w+",  # matrix product of one wave
    "to_fp8": r"v_cvt_\w*fp8_f32",  # of its own format; to the other one takes a dozen instructions
    "load_16_bytes": r"(?:global|buffer)_load_dwordx4",
    "store_16_bytes": r"(?:global|buffer)_store_dwordx4",
    "special": r"v_(?:exp|log|rcp|rsq|sqrt|sin|cos)_\w+",
    "load": r"(?:global|buffer|flat)_load_\w+",
    "store": r"(?:global|buffer|flat)_store_\w+",
    "local": r"scratch_\w+",
    "vector": r"v_\w+",  # all that occupy a SIMD, matrix products too
    "all": r"[a-z]\w+",
}
_SIMDS = 4  # of one compute unit
_WAVES_MAX = 8  # of a SIMD
_REGISTERS = 512  # of each lane of a SIMD, given out by 8
_PROGRAMS_MAX = 16  # of a compute unit, where they are of more than one wave
LDS_BYTES = {"gfx942": 64 << 10, "gfx950": 160 << 10}  # of one compute unit
# Compute units of 4 SIMDs; a vector instruction of 64 lanes takes its SIMD of 16 lanes 4 cycles.
_CHIPS = {
    "gfx942": Chip("an MI300X", 4.8e12, 1046e12, 304 * _SIMDS * 2.1e9 / 4),
    "gfx950": Chip("an MI355X", 7.2e12, 2013e12, 256 * _SIMDS * 2.4e9 / 4),
}


class AmdTarget:
    """``architecture``: a key of ``LDS_BYTES``."""

    fp8 = True

    def __init__(self, architecture: str) -> None:
        self.name, self.chip = architecture, _CHIPS[architecture]

    def compiled_for(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("hip", self.name, 64)

    def read(self, kernel: Any) -> MachineCode:
        return read_assembly(kernel.asm["amdgcn"])

    def occupancy(self, warps: int, registers: int, shared_bytes: int) -> float:
        per_simd = min(_WAVES_MAX, _REGISTERS // (-(-max(registers, 1) // 8) * 8))
        programs = min(
            _SIMDS * _WAVES_MAX if warps == 1 else _PROGRAMS_MAX,
            _SIMDS * per_simd // warps,
            LDS_BYTES[self.name] // max(1, shared_bytes),
        )
        return programs * warps / (_SIMDS * _WAVES_MAX)

    def compiler(self) -> str:
        return "with its LLVM"


def read_assembly(text: str) -> MachineCode:
    """Of one kernel. Its private segment holds spilled vector registers; scalar ones are spilled to vector ones."""
    used = {name: int(size) for name, size in re.findall(r"^\s+\.(\w+):\s+(\d+)$", text, re.MULTILINE)}
    code = re.findall(r"^\t([a-z]\w+.*)$", text, re.MULTILINE)
    counts = {name: sum(bool(re.match(p, line)) for line in code) for name, p in _INSTRUCTIONS.items()}
    return MachineCode(used["vgpr_count"], used["private_segment_fixed_size"], counts, counts["vector"])
