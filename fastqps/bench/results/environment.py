"""The machine and the software of a measurement, and the CPU time that other programs took meanwhile."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from fastqps import __version__
from fastqps.host import machine

_PACKAGES = ("torch", "numpy", "tokenizers", "grpcio", "uvloop")
_HERE = Path(__file__).parent
OTHERS = "other_programs_cpu_share"  # of the machine, meanwhile


def environment(*packages: str) -> dict[str, Any]:
    """The machine and the software; of Python packages also these."""
    facts: dict[str, Any] = {
        "fastqps": __version__,
        "cpu": machine.cpu_model(),
        "cores": len(machine.allowed_cpus()),
        "memory_gib": round(machine.memory_bytes() / (1 << 30), 1),
        "bfloat16": "yes" if machine.bfloat16_flags() else "no",
        "kernel": platform.release(),
        "python": platform.python_version(),
    }
    quota = machine.cgroup().cpu_quota_cores
    if quota is not None:
        facts["cpu_quota_cores"] = quota
    if gpu := _first_line("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"):
        facts["gpu"] = gpu
    return facts | {name: _installed(name) for name in (*_PACKAGES, *packages)}


def commit() -> str:
    """The checkout's commit, with ``+`` where files differ from it; "" where fastqps runs from no checkout."""
    head = _first_line("git", "-C", str(_HERE), "rev-parse", "--short=12", "HEAD")
    dirty = head and _first_line("git", "-C", str(_HERE), "status", "--porcelain", "--untracked-files=no")
    return head + ("+" if dirty else "")


class Others:
    """Measures the share of CPU time that other programs took since its construction. It lowers rates unevenly."""

    def __init__(self) -> None:
        self._total_s, self._busy_s = _machine_cpu_s()
        self._own_s = _own_cpu_s()

    def share(self) -> float:
        """0 to 1. Our children count once they have ended and been waited for."""
        total_s, busy_s = _machine_cpu_s()
        others_s = (busy_s - self._busy_s) - (_own_cpu_s() - self._own_s)
        return max(0.0, others_s / max(1e-9, total_s - self._total_s))


def _machine_cpu_s() -> tuple[float, float]:
    """(all time, time that was not idle) of all cores so far."""
    ticks = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    idle = ticks[3] + ticks[4]
    return sum(ticks) / os.sysconf("SC_CLK_TCK"), (sum(ticks) - idle) / os.sysconf("SC_CLK_TCK")


def _own_cpu_s() -> float:
    parts = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(part.ru_utime + part.ru_stime for part in parts)


def _installed(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "missing"


def _first_line(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (done.stdout.splitlines() or [""])[0] if done.returncode == 0 else ""
