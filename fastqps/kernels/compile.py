"""Compiles every kernel ahead of time, as its launcher would have it, without a GPU.

Launchers run on tensors without storage (``meta``) under a driver that compiles and never launches, so a build is what
a server on that GPU would load. Machine code is then read by the tools that come with Triton: registers, stack (a
spill is visible there), shared memory, the instructions that matter. ``python -m fastqps.kernels.compile``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch

# Instructions of the machine code by what they tell, on sm_80 to sm_90.
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
_SHARED_BYTES = {80: 164 << 10, 89: 100 << 10, 90: 228 << 10}
_RESERVED_BYTES = 1 << 10  # of shared memory, by every resident program
# An H200, for estimates: memory bytes/s, bf16 operations/s, instructions of warps/s (132 · 4 at 1.755 GHz).
_BYTES_PER_S, _FLOP_PER_S, _WARP_INSTRUCTIONS_PER_S = 4.3e12, 790e12, 132 * 4 * 1.755e9


@dataclass(frozen=True)
class Build:
    """What became of one kernel. ``case`` names the launcher's call, ``kernel`` one kernel that it launches."""

    case: str
    kernel: str
    arch: int
    warps: int
    stages: int
    registers: int  # per thread
    spill_bytes: int  # of local memory per thread
    shared_bytes: int
    occupancy: float  # theoretical: resident warps of 64, by registers and shared memory
    instructions: dict[str, int]
    bound_us: float  # estimated: what memory or matrix products alone would take on an H200, whichever is longer
    issue_us: float  # estimated: what its instructions alone would take; loops as if they had one turn
    error: str = ""  # why it did not compile; the numbers are then 0


@dataclass(frozen=True)
class Case:
    """One call of a launcher; ``launch`` runs it on meta tensors."""

    name: str
    launch: Callable[[], object]
    flop: float = 0.0  # of matrix products
    bytes: int = 0  # read and written; 0: every tensor once


class _Compiling:
    """A Triton driver for a GPU that is not there."""

    def __init__(self, arch: int) -> None:
        from triton.backends.compiler import GPUTarget

        self._target = GPUTarget("cuda", arch, 32)

    def get_current_target(self) -> Any:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


def compile_all(cases: Iterable[Case], arch: int) -> list[Build]:
    """Every kernel of every case, each configuration once. A failure is a build with an error, not an exception."""
    from triton.runtime.driver import driver
    from triton.runtime.jit import JITFunction

    compiled: list[_Launched] = []
    run = JITFunction.run

    def compile_only(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor)]
        kernel = run(self, *args, grid=grid, warmup=True, **kwargs)
        compiled.append(_Launched(kernel, math.prod(grid), sum(t.nbytes for t in tensors)))

    builds: list[Build] = []
    seen: set[str] = set()
    JITFunction.run = compile_only
    driver.set_active(_Compiling(arch))
    try:
        for case in cases:
            compiled.clear()
            try:
                case.launch()
            except Exception as error:  # the compiler's own, of many types; the table shows it
                builds.append(_failed(case, arch, error))
                continue
            for launched in compiled:
                if launched.kernel.hash not in seen:
                    seen.add(launched.kernel.hash)
                    builds.append(_read(case, arch, launched))
    finally:
        JITFunction.run = run
    return builds


@dataclass(frozen=True)
class _Launched:
    kernel: Any
    programs: int
    bytes: int  # of its tensors


def _failed(case: Case, arch: int, error: Exception) -> Build:
    return Build(case.name, "", arch, 0, 0, 0, 0, 0, 0.0, {}, 0.0, 0.0, f"{type(error).__name__}: {error}")


def _read(case: Case, arch: int, launched: _Launched) -> Build:
    from triton import knobs

    kernel, meta = launched.kernel, launched.kernel.metadata
    with tempfile.NamedTemporaryFile(suffix=".cubin") as cubin:
        cubin.write(kernel.asm["cubin"])
        cubin.flush()
        usage = _tool(knobs.nvidia.cuobjdump.path, "-res-usage", cubin.name)
        code = _tool(knobs.nvidia.cuobjdump.path, "-sass", cubin.name)
    used = {name: int(size) for name, size in re.findall(r"\b(REG|STACK|LOCAL):(\d+)", usage)}
    counts = {name: len(re.findall(pattern, code)) for name, pattern in _INSTRUCTIONS.items()}
    counts["all"] = len(re.findall(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?!.*\b(?:NOP|BRA `)).*;", code, re.MULTILINE))
    return Build(
        case=case.name,
        kernel=meta.name,
        arch=arch,
        warps=meta.num_warps,
        stages=meta.num_stages,
        registers=used["REG"],
        spill_bytes=used["STACK"] + used["LOCAL"],
        shared_bytes=meta.shared,
        occupancy=occupancy(arch, meta.num_warps, used["REG"], meta.shared),
        instructions={name: count for name, count in counts.items() if count},
        bound_us=1e6 * max((case.bytes or launched.bytes) / _BYTES_PER_S, case.flop / _FLOP_PER_S),
        issue_us=1e6 * counts["all"] * meta.num_warps * launched.programs / _WARP_INSTRUCTIONS_PER_S,
    )


def _tool(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def occupancy(arch: int, warps: int, registers: int, shared_bytes: int) -> float:
    """The share of a multiprocessor's warp slots that programs of this size can fill."""
    per_warp = -(-registers * 32 // 256) * 256  # registers are given out by 256
    programs = min(
        _BLOCKS_MAX,
        _WARPS_MAX // warps,
        _REGISTERS // per_warp // warps,
        _SHARED_BYTES[arch] // (shared_bytes + _RESERVED_BYTES),
    )
    return programs * warps / _WARPS_MAX


def table(builds: Iterable[Build]) -> str:
    """Markdown, one row for each build."""
    lines = [
        "| case | kernel | sm | warps | stages | registers | spilled bytes | shared bytes | occupancy | bound, µs "
        "| issue, µs | instructions |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for b in builds:
        told = b.error.replace("\n", " ")[:200] or " ".join(f"{name} {count}" for name, count in b.instructions.items())
        lines.append(
            f"| {b.case} | {b.kernel} | {b.arch} | {b.warps} | {b.stages} | {b.registers} | {b.spill_bytes} "
            f"| {b.shared_bytes} | {b.occupancy:.0%} | {b.bound_us:.2f} | {b.issue_us:.2f} | {told} |"
        )
    return "\n".join(lines) + "\n"


def _heading(arch: int) -> str:
    import triton
    from triton import knobs

    said = _tool(knobs.nvidia.ptxas.path, "--version")
    found = re.search(r"release [\w., ]+", said)
    return (
        f"# Kernels as compiled for sm_{arch}\n\nWritten by `make kernels`; docs/kernels.md explains it. Triton "
        f"{triton.__version__}, ptxas {found.group() if found else said}. Nothing here was measured: bound and issue "
        "are estimates, of an H200.\n\n"
    )


def main() -> int:
    """Prints the table, or with --json the builds; 1 if one did not compile."""
    parser = argparse.ArgumentParser(prog="python -m fastqps.kernels.compile", description=__doc__)
    parser.add_argument("--arch", type=int, default=90, choices=sorted(_SHARED_BYTES), help="compute capability × 10")
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose name has a match")
    parser.add_argument("--brief", action="store_true", help="few cases, of every kind: what the tests compile")
    parser.add_argument("--json", action="store_true", help="builds as JSON instead of a table")
    options = parser.parse_args()
    if os.environ.get("TRITON_INTERPRET"):
        parser.error("TRITON_INTERPRET is set: kernels are interpreted then, not compiled")
    from fastqps.kernels.cases import all_cases

    cases = [c for c in all_cases(options.arch, options.brief) if re.search(options.only, c.name)]
    builds = compile_all(cases, options.arch)
    if options.json:
        print(json.dumps([asdict(b) for b in builds]))
    else:
        print(_heading(options.arch) + table(builds), end="")
    failed = [b.case for b in builds if b.error]
    print(f"{len(builds)} kernels of {len(cases)} cases, {len(failed)} failed", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
