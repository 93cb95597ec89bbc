"""Starts noisy neighbours and ends them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from fastqps.bench.neighbours.programs import PROGRAMS
from fastqps.bench.results.result import BenchError

NEIGHBOURS = tuple(PROGRAMS)


class Beside:
    """One process of this kind on each of ``cpus``, at work from ``with`` on.

    They are of our own session: where the kernel schedules sessions or control groups, the server's processes and
    they share one.
    """

    def __init__(self, name: str, cpus: Sequence[int]) -> None:
        self._name, self._cpus = name, cpus
        self.processes: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        try:
            for cpu in self._cpus:
                self.processes.append(self._start(cpu))
            for process in self.processes:
                assert process.stdout is not None
                if not process.stdout.readline():
                    raise BenchError(f"the neighbour {self._name} ended with exit code {process.wait()}")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _start(self, cpu: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", f"{__package__}.programs", self._name, str(os.getpid()), str(cpu)]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, process_group=0)

    def _end(self) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
