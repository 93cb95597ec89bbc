"""Compiles every kernel ahead of time, as its launcher would have it, without a GPU.

Launchers run on tensors without storage (``meta``) under a driver that compiles and never launches, so a build is what
a server on that GPU would load. Machine code is then read by the tools that come with Triton: registers, stack (a
spill is visible there), shared memory, the instructions that matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from bench.kernels.machine_code import LDS_BYTES, SHARED_BYTES, AmdTarget, NvidiaTarget, Target

TARGETS: dict[str, Target] = {
    **{str(capability): NvidiaTarget(capability) for capability in SHARED_BYTES},
    **{architecture: AmdTarget(architecture) for architecture in LDS_BYTES},
}


@dataclass(frozen=True)
class Build:
    """The outcome for one kernel. ``case`` names the launcher's call, ``kernel`` one kernel that it launches."""

    case: str
    kernel: str
    target: str  # sm_90, gfx942
    warps: int
    stages: int
    registers: int  # per thread
    spill_bytes: int  # of local memory per thread
    shared_bytes: int
    occupancy: float  # theoretical: resident warps of 64, by registers and shared memory
    instructions: dict[str, int]
    error: str = ""  # why it did not compile; the numbers are then 0


@dataclass(frozen=True)
class Case:
    """One call of a launcher; ``launch`` runs it on meta tensors."""

    name: str
    launch: Callable[[], object]


class _Compiling:
    """A Triton driver for a GPU that is not there."""

    def __init__(self, target: Target) -> None:
        self._target = target.compiled_for()

    def get_current_target(self) -> Any:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


def compile_all(cases: Iterable[Case], target: Target) -> list[Build]:
    """Every kernel of every case, each configuration once. A failure is a build with an error, not an exception."""
    from triton.runtime.driver import driver
    from triton.runtime.jit import JITFunction

    compiled: list[Any] = []
    run = JITFunction.run

    def compile_only(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        compiled.append(run(self, *args, grid=grid, warmup=True, **kwargs))

    builds: list[Build] = []
    seen: set[str] = set()
    JITFunction.run = compile_only
    driver.set_active(_Compiling(target))
    try:
        for case in cases:
            compiled.clear()
            try:
                case.launch()
            except Exception as error:  # the compiler's own, of many types; the table shows it
                builds.append(_failed(case, target, error))
                continue
            for kernel in compiled:
                if kernel.hash not in seen:
                    seen.add(kernel.hash)
                    builds.append(_read(case, target, kernel))
    finally:
        JITFunction.run = run
    return builds


def _failed(case: Case, target: Target, error: Exception) -> Build:
    return Build(case.name, "", target.name, 0, 0, 0, 0, 0, 0.0, {}, f"{type(error).__name__}: {error}")


def _read(case: Case, target: Target, kernel: Any) -> Build:
    meta, code = kernel.metadata, target.read(kernel)
    return Build(
        case=case.name,
        kernel=meta.name,
        target=target.name,
        warps=meta.num_warps,
        stages=meta.num_stages,
        registers=code.registers,
        spill_bytes=code.spill_bytes,
        shared_bytes=meta.shared,
        occupancy=target.occupancy(meta.num_warps, code.registers, meta.shared),
        instructions={name: count for name, count in code.instructions.items() if count},
    )


def table(builds: Iterable[Build]) -> str:
    """Markdown, one row for each build."""
    lines = [
        "| case | kernel | target | warps | stages | registers | spilled bytes | shared bytes | occupancy "
        "| instructions |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for b in builds:
        error = b.error.replace("\n", " ")[:200]
        counts = " ".join(f"{name} {count}" for name, count in b.instructions.items())
        lines.append(
            f"| {b.case} | {b.kernel} | {b.target} | {b.warps} | {b.stages} | {b.registers} | {b.spill_bytes} "
            f"| {b.shared_bytes} | {b.occupancy:.0%} | {error or counts} |"
        )
    return "\n".join(lines) + "\n"
