"""Builds the C++ extensions in place, unless those that are here load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[2]
EXTENSIONS = "import fastqps._core, fastqps._front, loadgen._native"


def is_built() -> bool:
    """Whether all load, of these sources: asked in another process, since a build replaces them."""
    try:
        done = subprocess.run([sys.executable, "-c", EXTENSIONS], cwd=ROOT, capture_output=True, timeout=30)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def build(log: IO[str], limit_s: float) -> str:
    """Why it failed, or nothing. The compiler's output goes into the log."""
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    try:
        done = subprocess.run(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, timeout=max(1.0, limit_s))
    except subprocess.TimeoutExpired:
        return f"the build took longer than {limit_s:.0f} s"
    return f"the build ended with code {done.returncode}" if done.returncode else ""
