"""One step in a process of its own, which ends at its limit with all that it has started."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from bench.gpu.models.checkpoints import CACHE

KILL_S = 5.0  # before its limit a step has ended by itself; what hangs is killed then


def run_step(command: Sequence[str], ends_s: float, log: IO[str]) -> str:
    """Why it failed, or nothing. Its output goes into the log.

    ``ends_s``, of CLOCK_MONOTONIC, is when it is killed; ``--ends`` tells it to end a little before.
    """
    soft_s = min(KILL_S, 0.1 * max(0.0, ends_s - time.monotonic()))
    child = subprocess.Popen(
        [*command, "--ends", f"{ends_s - soft_s:.3f}"],
        stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True, env=_quiet(),
    )  # fmt: skip
    try:
        code = child.wait(max(0.5, ends_s - time.monotonic()))
        return f"its process ended with code {code}" if code else ""
    except subprocess.TimeoutExpired:
        return "it was killed at its limit"
    finally:
        end_session(child.pid)
        child.wait()


def end_session(session: int) -> None:
    """Kills every process of a session: servers have process groups of their own in it."""
    while found := [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if _session(pid) == session]:
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.01)


def _session(pid: int) -> int:
    """Of a process; 0 for one that has ended."""
    try:
        state, _, _, session = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:4]
    except (OSError, ValueError):
        return 0
    return 0 if state in "ZX" else int(session)


def _quiet() -> dict[str, str]:
    """Nothing is fetched from anywhere, no progress bars, and what one step compiles the next ones do not."""
    found = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    found |= {"TOKENIZERS_PARALLELISM": "false", "PYTHONUNBUFFERED": "1"}
    found["TRITON_CACHE_DIR"] = os.environ.get("TRITON_CACHE_DIR") or str(CACHE.parent / "triton")
    return {**os.environ, **found}
