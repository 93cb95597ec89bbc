"""Noisy neighbours: small programs that take a server's CPUs, caches, process table and page cache.

``python -m bench.noise NAME PARENT CPU`` runs on that CPU, prints a line once it is at work, and goes on until it is
killed, by its starter or with it. It touches nothing but what it makes itself.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from fastqps.bench.measure.generator import child_process
from fastqps.bench.results.result import BenchError
from fastqps.host import machine
from fastqps.process.prctl import die_with_parent

CHILDREN = 4  # of a fork storm, alive at a time
CHILD_S = 0.001  # of CPU time that each of them takes
STREAM_BYTES_MIN, STREAM_BYTES_MAX = 64 << 20, 512 << 20
FILE_BYTES, BLOCK_BYTES = 256 << 20, 1 << 20
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_AUTOGROUPS = Path("/proc/sys/kernel/sched_autogroup_enabled")


def spin() -> Iterator[None]:
    """Computes without a pause."""
    while True:
        yield


def stream_memory() -> Iterator[None]:
    """Copies memory that is twice as large as the last-level cache, so that it evicts what others have there."""
    import numpy as np  # here: a fork storm copies whatever is loaded

    largest = min(STREAM_BYTES_MAX, machine.memory_bytes() // 16)
    size = min(max(2 * last_level_cache_bytes(), STREAM_BYTES_MIN), largest)
    source, target = np.ones(size, np.uint8), np.ones(size, np.uint8)
    while True:
        np.copyto(target, source)
        yield


def storm_forks() -> Iterator[None]:
    """Starts processes that end after a millisecond of CPU time, ``CHILDREN`` at a time."""
    alive = 0
    while True:
        while alive < CHILDREN:
            if os.fork() == 0:
                end_s = time.process_time() + CHILD_S
                while time.process_time() < end_s:
                    pass
                os._exit(0)
            alive += 1
        os.wait()
        alive -= 1
        yield


def write_files() -> Iterator[None]:
    """Writes a file through the page cache and drops it from there, again and again. The file has no name, so it goes
    with the process."""
    block = os.urandom(BLOCK_BYTES)
    with tempfile.TemporaryFile(prefix="fastqps-neighbour-", buffering=0) as file:
        while True:
            file.seek(0)
            for _ in range(FILE_BYTES // BLOCK_BYTES):
                file.write(block)
                yield
            os.fdatasync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


PROGRAMS: dict[str, Callable[[], Iterator[None]]] = {
    "spinner": spin,
    "memory-streamer": stream_memory,
    "fork-storm": storm_forks,
    "page-cache-writer": write_files,
}


def last_level_cache_bytes() -> int:
    """The size of the largest cache; 0 if the kernel does not say."""
    sizes = [path.read_text().strip() for path in _CACHES.glob("index*/size")]
    return max((int(size.removesuffix("K")) << 10 for size in sizes if size.endswith("K")), default=0)


def autogroups() -> bool:
    """Whether the kernel shares a core between sessions, not between processes."""
    return _AUTOGROUPS.is_file() and _AUTOGROUPS.read_text().strip() == "1"


@contextlib.contextmanager
def beside(name: str, cpu: int, *, own_session: bool = False) -> Iterator[subprocess.Popen[str]]:
    """A process of this kind on a CPU, at work from ``with`` on.

    It is of our own session: where the kernel schedules sessions or control groups, the server's processes and it share
    one. ``own_session``: it has one, as programs of another container have. Then, where ``autogroups()`` says so, it
    gets half of a core that it shares with the server.
    """
    command = [sys.executable, "-m", "bench.noise", name, str(os.getpid()), str(cpu)]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
    with child_process(command, own_session=own_session, **pipes) as process:
        assert process.stdout is not None
        if not process.stdout.readline():
            raise BenchError(f"the neighbour {name} ended with exit code {process.wait()}")
        yield process


def main(name: str, parent: str, cpu: str) -> None:
    """Never returns."""
    die_with_parent(int(parent))
    os.sched_setaffinity(0, [int(cpu)])
    work = PROGRAMS[name]()
    next(work)
    print("at work", flush=True)
    for _ in work:
        pass


if __name__ == "__main__":
    main(*sys.argv[1:])
