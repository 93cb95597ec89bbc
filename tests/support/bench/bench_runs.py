"""Runs of the ``fastqps bench`` command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from figures import Unmeasured
from paths import ROOT

from fastqps.errors import GENERATOR_BOUND, INCONCLUSIVE

RUN_S_MAX = 75.0


def bench(mode: str, folder: Path, *flags: str) -> dict[str, Any]:
    """The report of a run that has to succeed. Raises ``Unmeasured``."""
    command = [sys.executable, "-m", "fastqps", "bench", mode, "--output", str(folder), "--warmup", "300ms"]
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    env = {**os.environ, "PYTHONPATH": paths}
    try:
        done = subprocess.run(
            [*command, *flags], capture_output=True, text=True, timeout=RUN_S_MAX, env=env, cwd=folder
        )
    except subprocess.TimeoutExpired:
        raise Unmeasured(f"no result within {RUN_S_MAX:g} s") from None
    if done.returncode in (GENERATOR_BOUND, INCONCLUSIVE):
        raise Unmeasured(done.stderr)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return found
