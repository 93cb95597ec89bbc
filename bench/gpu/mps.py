"""How processes share a GPU in measurements outside of a server: under the same MPS daemon as in one, or without."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from fastqps.host.gpus import VISIBLE, find_gpus
from fastqps.supervisor.gpu.mps import MpsDaemon, MpsError
from fastqps.supervisor.log import Log
from fastqps.supervisor.run_directory import PIPES, RunDirectory

__all__ = ["MpsError", "Surroundings", "daemon", "without"]


@dataclass(frozen=True)
class Surroundings:
    """Processes with this ``environment`` share the GPU in this way. ``absent``: those of some process ids that do
    not."""

    environment: dict[str, str]
    absent: Callable[[Collection[int]], list[int]]


@contextlib.contextmanager
def daemon() -> Iterator[Surroundings]:
    """Under MPS. ``MpsError`` where that cannot be. The daemon ends with this process, however that ends."""
    found = find_gpus()
    if not found.visible:
        raise MpsError(found.missing)
    gpu = found.visible[0]
    with _run() as (run, log), asyncio.Runner() as loop:
        mps = MpsDaemon(gpu, run, log)
        loop.run(mps.start())
        try:
            yield Surroundings({VISIBLE: gpu.uuid, PIPES: str(mps.pipes)}, lambda pids: loop.run(mps.absent(pids)))
        finally:
            loop.run(mps.stop())


@contextlib.contextmanager
def without() -> Iterator[Surroundings]:
    """In turns: they find no daemon, whatever runs on this machine."""
    with _run() as (run, _):
        yield Surroundings({PIPES: str(run.folder("none"))}, lambda pids: [])


@contextlib.contextmanager
def _run() -> Iterator[tuple[RunDirectory, Log]]:
    with contextlib.closing(Log()) as log, contextlib.closing(RunDirectory(log)) as run:
        yield run, log
