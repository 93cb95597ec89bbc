"""MPS for processes outside a server: the daemon that a server would start, or surely none."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from fastqps.host.gpus import VISIBLE, find_gpus
from fastqps.supervisor.gpu.mps import MpsDaemon, MpsError
from fastqps.supervisor.log import Log
from fastqps.supervisor.run_directory import PIPES, RunDirectory

Environment = dict[str, str]  # variables for the processes that share the GPU


@contextlib.contextmanager
def daemon() -> Iterator[Environment]:
    """Processes with these variables are clients of one daemon, which ends with this process.

    Raises ``MpsError`` where it cannot start.
    """
    found = find_gpus()
    if not found.visible:
        raise MpsError(found.missing)
    gpu = found.visible[0]
    with _run() as (run, log), asyncio.Runner() as loop:
        mps = MpsDaemon(gpu, run, log)
        loop.run(mps.start())
        try:
            yield {VISIBLE: gpu.uuid, PIPES: str(mps.pipes)}
        finally:
            loop.run(mps.stop())


@contextlib.contextmanager
def without() -> Iterator[Environment]:
    """Processes with these variables find no daemon, whatever runs on this machine: they take turns on the GPU."""
    with _run() as (run, _):
        yield {PIPES: str(run.folder("none"))}


@contextlib.contextmanager
def _run() -> Iterator[tuple[RunDirectory, Log]]:
    with contextlib.closing(Log()) as log, contextlib.closing(RunDirectory(log)) as run:
        yield run, log
