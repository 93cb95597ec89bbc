"""For tests and measurements: a host that prepares its steps as slowly as a file says."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable

from fastqps._core import burn_cpu

# Tests only: a file of a little-endian u64, the µs of CPU time that each launch takes first. It may change meanwhile.
PREPARE_FILE = os.environ.get("FASTQPS_TEST_PREPARE", "")


def launch_slowly(launch: Callable[[int], bool], path: str) -> Callable[[int], bool]:
    """The same launch after as much CPU time as the file says at that moment. Raises ``OSError``, ``ValueError``."""
    with open(path, "rb") as file:
        shared = mmap.mmap(file.fileno(), 8, prot=mmap.PROT_READ)

    def launch_later(step: int) -> bool:
        burn_cpu(int.from_bytes(shared, "little") * 1000)
        return launch(step)

    return launch_later
