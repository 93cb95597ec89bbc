"""The machine and the software of a run."""

from __future__ import annotations

import os
import platform
import re
from importlib import metadata
from pathlib import Path
from typing import Any


def environment() -> dict[str, Any]:
    """The machine of the generator, and its software."""
    from loadgen import _native  # not for a run that fails before

    cpuinfo = _text("/proc/cpuinfo")
    model = re.search(r"model name\s*: (.*)", cpuinfo)
    return {
        "cpu": model[1] if model else platform.machine(),
        "cores": os.cpu_count(),
        "allowed_cpus": sorted(os.sched_getaffinity(0)),
        "load_average": [round(value, 2) for value in os.getloadavg()],
        "kernel": platform.release(),
        "python": platform.python_version(),
        "numpy": metadata.version("numpy"),
        "nghttp2": _native.NGHTTP2,
        "compiler": _native.COMPILER,
    }


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
