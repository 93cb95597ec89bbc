"""A noisy neighbour: processes that compute without end on given CPUs, and push others' data out of the caches."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from fastqps.bench.measure.generator import child_prefix

# Streams over more memory than a core's caches hold. It ends with the process that started it.
_PROGRAM = "import numpy as np\na = np.ones(1 << 23)\nwhile True: a += 1.0"


class Neighbour:
    """From ``with`` on, one busy process on each of ``cpus`` (none: one that runs anywhere)."""

    def __init__(self, cpus: Sequence[int]) -> None:
        self._commands = [
            [*child_prefix(one), sys.executable, "-c", _PROGRAM] for one in ([[cpu] for cpu in cpus] or [[]])
        ]
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        for command in self._commands:
            self._processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
