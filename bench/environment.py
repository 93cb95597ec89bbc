"""Where and from what a figure was measured, and how quiet it was there: a number without that is no number."""

from __future__ import annotations

import os
import platform
import re
import resource
import subprocess
from importlib import metadata
from pathlib import Path

_PACKAGES = ("torch", "sentence-transformers", "grpcio", "uvloop", "numpy")


def environment() -> dict[str, str | int]:
    """The machine and the software."""
    cpuinfo = Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*: (.*)", cpuinfo)
    found: dict[str, str | int] = {
        "cpu": model[1] if model else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "bfloat16": "yes" if re.search(r"avx512_bf16|amx_bf16", cpuinfo) else "no",
        "kernel": platform.release(),
        "python": platform.python_version(),
        "h2load": _first_line("h2load", "--version"),
    }
    return found | {name: _installed(name) for name in _PACKAGES}


def two_cpus() -> tuple[int, int]:
    """One CPU for the server, another one for the load. ``OSError`` where this process may use one only."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        raise OSError("the bench needs two CPUs: one for the server, one for the load")
    return allowed[0], allowed[1]


def commit() -> str:
    """The checkout's commit, with ``+`` where files differ from it."""
    dirty = _first_line("git", "status", "--porcelain", "--untracked-files=no")
    return _first_line("git", "rev-parse", "--short=12", "HEAD") + ("+" if dirty else "")


class Others:
    """How much of the machine's CPU time other programs took since this was made. Rates suffer from it, unevenly."""

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
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "missing"
    return (done.stdout.splitlines() or [""])[0]
