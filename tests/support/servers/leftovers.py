"""What a server with two front doors and two dispatchers must not leave behind when its processes die."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psutil
from busy import sees
from serving import Server, descriptors

WORKERS = ["frontdoor 0", "frontdoor 1", "dispatcher 0", "dispatcher 1"]


@asynccontextmanager
async def nothing_left(server: Server) -> AsyncIterator[dict[str, psutil.Process]]:
    """Gives the processes by worker slot. At the end each worker runs, with as many descriptors as before, and no
    slot of shared memory is in use."""
    before = {worker: server.child(worker) for worker in WORKERS}
    files = {worker: descriptors(process) for worker, process in before.items()}
    supervisor = psutil.Process(server.pid)
    await sees(
        lambda: {each.status for each in supervisor.net_connections("tcp")} <= {"LISTEN"}, "no page is being read"
    )
    own = descriptors(supervisor)
    yield before
    await sees(lambda: all(map(server.ready, WORKERS)), lambda: f"all are ready\n{server.log()}")
    gc.collect()  # a cancelled call that is left in a cycle keeps its connection
    await sees(lambda: not any(server.connections()), "no connection")
    await asyncio.to_thread(server.until_idle)
    await sees(
        lambda: {worker: descriptors(server.child(worker)) for worker in WORKERS} == files, f"descriptors as {files}"
    )
    await sees(lambda: descriptors(supervisor) == own, "the supervisor's descriptors")
    assert len(server.processes()) == 1 + len(WORKERS), server.processes()
