"""What is read from a compiled kernel's machine code, and what each vendor's reader has to provide."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class MachineCode:
    """``instructions``: how often each kind stands in the code; "all" is all of it."""

    registers: int  # per thread
    spill_bytes: int  # of local memory per thread: spilled registers, or arrays that do not fit them
    instructions: dict[str, int]
    issued: int  # instructions that take one of the issue slots that ``Chip`` counts


@dataclass(frozen=True)
class Chip:
    """One GPU, for estimates: 0.9 of its stated memory bandwidth, 0.8 of its stated dense bf16 rate."""

    name: str
    bytes_per_s: float
    flop_per_s: float
    issued_per_s: float  # instructions of warps (waves), on all multiprocessors


class Target(Protocol):
    """A GPU that kernels are compiled for."""

    name: str  # "sm_90", "gfx942"
    chip: Chip
    fp8: bool  # it converts to float8 and multiplies it

    def compiled_for(self) -> Any:
        """Triton's ``GPUTarget``."""

    def read(self, kernel: Any) -> MachineCode:
        """The machine code of one of Triton's compiled kernels."""

    def occupancy(self, warps: int, registers: int, shared_bytes: int) -> float:
        """The share of a multiprocessor's warp slots that programs of this size can fill, by registers and memory."""

    def compiler(self) -> str:
        """What made the machine code, with its version."""


def run_tool(*command: str) -> str:
    """The output of a program that reads machine code."""
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
