"""Runs steps one behind the other against one clock, and writes down how each of them ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO

from bench.gpu.models.checkpoints import CACHE
from bench.gpu.plan import STEPS
from bench.gpu.results import Results, rows_of
from bench.gpu.run import Run
from bench.gpu.sampler import GpuSampler
from bench.result_file import number
from fastqps.bench.results.environment import Others

LEAST_S = 3.0  # with less no step begins
DRY_S = 600.0  # of a step of a dry run: nothing is left out, whatever the machine does meanwhile
KILL_S = 5.0  # before its limit a step has ended by itself; what hangs is killed then
TAIL = 12  # lines of output that a failed step shows


class Suite:
    """Steps into ``results``, their output into ``log``. ``without``: steps that are left out, and why."""

    def __init__(self, dry: bool, results: Results, log: IO[str], without: Mapping[str, str]) -> None:
        self._dry, self._results, self._log, self._without = dry, results, log, without

    def run(self, limits: Mapping[str, float], ends_s: float) -> bool:
        """Whether all went well. A step has its own limit and what those before it, and before ``ends_s``, saved."""
        well = True
        for step, limit_s in limits.items():
            ends_s += limit_s
            well &= self._run(step, ends_s)
        return well

    def _run(self, step: str, ends_s: float) -> bool:
        began_s, others = time.monotonic(), Others()
        left_s = ends_s - began_s
        print(f"== {step}: {STEPS[step].what}; {left_s:.0f} s", flush=True)
        self._results.begin(step)
        if why := self._without.get(step) or ("no time left" if left_s < LEAST_S and not self._dry else ""):
            self._results.end(step, "left out", 0.0, why)
            print(f"   left out: {why}", flush=True)
            return True
        self._log.write(f"==== {step}\n")
        self._log.flush()
        at, error = self._log.tell(), "it was interrupted"
        try:
            error = self._ended(step, ends_s)
        finally:
            self._results.end(step, "failed" if error else "done", time.monotonic() - began_s, error)
            self._tell(step, error, at)
            facts = f"{time.monotonic() - began_s:.0f} s, other programs {100 * others.share():.0f} % of CPU"
            print(f"   {'failed' if error else 'done'}; {facts}", flush=True)
        return not error

    def _ended(self, step: str, ends_s: float) -> str:
        """Why it failed, or nothing."""
        if self._dry:
            with contextlib.redirect_stdout(self._log), contextlib.redirect_stderr(self._log):
                return "" if perform(step, self._results, time.monotonic() + DRY_S, dry=True) else "it failed"
        command = [sys.executable, "-m", "bench.gpu", "--step", step, "--file", str(self._results.path)]
        return run_step(command, ends_s, self._log)

    def _tell(self, step: str, error: str, at: int) -> None:
        """The step's figures, what it left out, and the end of its output where it failed."""
        document = self._results.read()
        for row in rows_of(document, step):
            reached = f" [{row.verdict}]" if row.verdict else ""
            print(f"   {row.name}: {number(row.measured)} {row.unit}{reached}; {row.note[:200]}")
        for what in document["steps"][step].get("left_out", ()):
            print(f"   left out: {what}")
        if error:
            with Path(self._log.name).open(errors="replace") as log:
                log.seek(at)
                print(*(f"   | {line.rstrip()[:200]}" for line in log.readlines()[-TAIL:]), sep="\n")
            print(f"   {document['steps'][step]['error']}")


def perform(step: str, results: Results, ends_s: float, *, dry: bool = False) -> bool:
    """Runs one step in this process; its error goes into the file. A dry run keeps its checkpoints beside that."""
    try:
        with GpuSampler() as gpu:
            run = Run(step, results, dry, ends_s, results.path.parent / "checkpoints" if dry else CACHE, gpu)
            if gpu.missing:
                run.say(f"clock and power of the GPU are not sampled: {gpu.missing}")
            import_module(f"bench.gpu.steps.{step.partition(':')[0]}").measure(run)
    except Exception as error:
        traceback.print_exc()
        results.end(step, "failed", 0.0, f"{type(error).__name__}: {' '.join(str(error).split())[:400]}")
        return False
    return True


# ---- a step in a process of its own, which ends at its limit with all that it has started


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
    while pids := [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if _session(pid) == session]:
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.01)


def _session(pid: int) -> int:
    """The session of a process; 0 for one that has ended."""
    try:
        state, _, _, session = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:4]
    except (OSError, ValueError):
        return 0
    return 0 if state in "ZX" else int(session)


def _quiet() -> dict[str, str]:
    """Nothing is fetched from anywhere, no progress bars, and what one step compiles the next ones do not."""
    variables = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    variables |= {"TOKENIZERS_PARALLELISM": "false", "PYTHONUNBUFFERED": "1"}
    variables["TRITON_CACHE_DIR"] = os.environ.get("TRITON_CACHE_DIR") or str(CACHE.parent / "triton")
    return {**os.environ, **variables}
