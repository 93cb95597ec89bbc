"""Where the peers were measured, too: what fastqps.bench says of a machine, and the versions of those compared with."""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib import metadata
from typing import Any

from fastqps.bench.results import environment as own

PEERS = ("sentence-transformers", "transformers")


def environment() -> dict[str, Any]:
    """The machine and the software."""
    found = own.environment() | {"h2load": _h2load()}
    for name in PEERS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "missing"
    return found


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
