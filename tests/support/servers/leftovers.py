"""What a server with two front doors and two dispatchers must not leave behind when its processes die."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psutil
from serving import Server, descriptors, until

WORKERS = ["frontdoor 0", "frontdoor 1", "dispatcher 0", "dispatcher 1"]


@contextmanager
def nothing_left(server: Server) -> Iterator[dict[str, psutil.Process]]:
    """Gives the processes by worker slot. At the end each worker runs, with as many descriptors as before, and no
    slot of shared memory is in use."""
    before = {worker: server.child(worker) for worker in WORKERS}
    files = {worker: descriptors(process) for worker, process in before.items()}
    own = descriptors(psutil.Process(server.pid))
    yield before
    until(lambda: all(map(server.ready, WORKERS)), f"all are ready\n{server.log()}")
    until(lambda: not any(server.connections()), "no connection")
    server.until_idle()
    until(lambda: {worker: descriptors(server.child(worker)) for worker in WORKERS} == files, f"descriptors as {files}")
    until(lambda: descriptors(psutil.Process(server.pid)) == own, "the supervisor's descriptors")
    assert len(server.processes()) == 1 + len(WORKERS), server.processes()
