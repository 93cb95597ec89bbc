"""Starts noisy neighbours and ends them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.noise.programs import PROGRAMS
from fastqps.bench.measure.child_process import child_process
from fastqps.bench.results.result import BenchError

NEIGHBOURS = tuple(PROGRAMS)
_AUTOGROUPS = Path("/proc/sys/kernel/sched_autogroup_enabled")


def autogroups() -> bool:
    """Whether the kernel shares a core between sessions, not between processes."""
    return _AUTOGROUPS.is_file() and _AUTOGROUPS.read_text().strip() == "1"


@contextlib.contextmanager
def beside(name: str, cpus: Sequence[int], *, own_session: bool = False) -> Iterator[list[subprocess.Popen[str]]]:
    """One process of this kind on each of ``cpus``, at work from ``with`` on.

    They are of our own session: where the kernel schedules sessions or control groups, the server's processes and
    they share one. ``own_session``: they have one, as programs of another container have. Then, where
    ``autogroups()`` says so, they get half of a core that they share with the server, however many they are.
    """
    program = [sys.executable, "-m", f"{__package__}.programs", name, str(os.getpid())]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
    with contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(child_process([*program, str(cpu)], own_session=own_session, **pipes)) for cpu in cpus
        ]
        for process in processes:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise BenchError(f"the neighbour {name} ended with exit code {process.wait()}")
        yield processes
