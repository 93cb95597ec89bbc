"""Where and from what a figure was measured: a number without that is no number."""

from __future__ import annotations

import os
import platform
import re
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
        "load_average_before": f"{os.getloadavg()[0]:.2f}",
    }
    return found | {name: _installed(name) for name in _PACKAGES}


def commit() -> str:
    """The checkout's commit, with ``+`` where files differ from it."""
    dirty = _first_line("git", "status", "--porcelain", "--untracked-files=no")
    return _first_line("git", "rev-parse", "--short=12", "HEAD") + ("+" if dirty else "")


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
