"""The machine, with the versions of the peers, and the two CPUs that measurements are pinned to."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Any

from fastqps.bench.results import environment as own


def environment() -> dict[str, Any]:
    """The machine and the software."""
    return own.environment("sentence-transformers", "transformers") | {"h2load": _h2load()}


def two_cpus() -> tuple[int, int]:
    """One CPU for the server, another one for the load. ``OSError`` where this process may use one only."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        raise OSError("the bench needs two CPUs: one for the server, one for the load")
    return allowed[0], allowed[1]


def _h2load() -> str:
    if not shutil.which("h2load"):
        return "missing"
    done = subprocess.run(["h2load", "--version"], capture_output=True, text=True, check=False)
    return (done.stdout.splitlines() or [""])[0]
