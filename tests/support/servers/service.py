"""How long each process of a server has served, as its budget of restarts counts it: time to start does not."""

from __future__ import annotations

import time
from collections import defaultdict

import psutil
from serving import Server, title_of


class Service:
    """``served_s``: by worker slot, never more than the server counts. ``processes``: those of the last look;
    ``ready``: those that served."""

    def __init__(self, server: Server) -> None:
        self.served_s: dict[str, float] = defaultdict(float)
        self.processes: dict[str, psutil.Process] = {}
        self.ready: dict[str, psutil.Process] = {}
        self._server = server
        self._looked_s = 0.0

    def look(self) -> None:
        """Who was ready at the last one and is still there has served since then."""
        since_last_s = time.monotonic() - self._looked_s
        self.processes = {worker: p for p in self._server.processes() if (worker := worker_of(p))}
        for worker, process in self.processes.items():
            if self.ready.get(worker) == process:
                self.served_s[worker] += since_last_s
        metrics = self._server.metrics()
        self.ready = {worker: p for worker, p in self.processes.items() if metrics.get(_key(worker))}
        self._looked_s = time.monotonic()


def worker_of(process: psutil.Process) -> str:
    """ "dispatcher 1", for example; "": it is none, or has no name yet."""
    role, _, index = " ".join(title_of(process).removeprefix("fastqps: ").split()[:2]).partition(" ")
    return f"{role} {index}" if role in ("dispatcher", "frontdoor") else ""


def _key(worker: str) -> str:
    role, index = worker.split()
    return f"fastqps_process_ready{{{index},{role}}}"
