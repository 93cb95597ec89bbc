"""Starts noisy neighbours and ends them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence

from fastqps.bench.measure.child_process import child_process
from fastqps.bench.neighbours.programs import PROGRAMS
from fastqps.bench.results.result import BenchError

NEIGHBOURS = tuple(PROGRAMS)


@contextlib.contextmanager
def beside(name: str, cpus: Sequence[int]) -> Iterator[list[subprocess.Popen[str]]]:
    """One process of this kind on each of ``cpus``, at work from ``with`` on.

    They are of our own session: where the kernel schedules sessions or control groups, the server's processes and
    they share one.
    """
    program = [sys.executable, "-m", f"{__package__}.programs", name, str(os.getpid())]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(child_process([*program, str(cpu)], **pipes)) for cpu in cpus]
        for process in processes:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise BenchError(f"the neighbour {name} ended with exit code {process.wait()}")
        yield processes
