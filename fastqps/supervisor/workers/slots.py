"""All worker slots of a server and their shared state."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from fastqps.supervisor.gpu.sharing import Sharing
from fastqps.supervisor.log import Log
from fastqps.supervisor.plan import Plan
from fastqps.supervisor.shared import Shared
from fastqps.supervisor.workers.dispatcher_slot import DispatcherSlot
from fastqps.supervisor.workers.fleet import Fleet
from fastqps.supervisor.workers.frontdoor_slot import FrontDoorSlot
from fastqps.supervisor.workers.slot import WorkerSlot
from fastqps.supervisor.workers.system import System
from fastqps.telemetry.metrics.canaries import Canaries


class WorkerSlots:
    """``sharings``: of the devices that are GPUs, by index."""

    def __init__(self, server: Plan, shared: Shared, log: Log, sharings: Mapping[int, Sharing], system: System) -> None:
        self.doors = [FrontDoorSlot(i, server, shared, log, system) for i in range(server.doors)]
        self.dispatchers = [DispatcherSlot(i, server, shared, log, system) for i in range(server.workers)]
        for worker in self.dispatchers:
            worker.sharing = sharings.get(server.device_of(worker.index))
        self.all: list[WorkerSlot] = [*self.dispatchers, *self.doors]
        self.sharings = sharings
        self._system = system
        self.fleet = Fleet(self.dispatchers, server, shared)

    def processes(self) -> Iterator[tuple[str, int]]:
        """The (role, pid) of all processes of the server."""
        yield "supervisor", os.getpid()
        for worker in self.all:
            if worker.child:
                yield worker.role, worker.child.pid
        for door in self.doors:
            if door.child:
                yield from (("tokenizer", pid) for pid in door.line.tokenizers)
        for sharing in self.sharings.values():
            yield from sharing.processes()

    def restarts(self) -> dict[str, int]:
        """How often processes were started again, by role."""
        found = {"frontdoor": 0, "dispatcher": 0}
        for worker in self.all:
            found[worker.role] += worker.restarts
        return found

    def canaries(self) -> list[Canaries]:
        """The canary results of the running dispatchers."""
        now = self._system.now_ns()
        return [
            Canaries(worker.index, int(worker.line.canaries), worker.canary.missed, worker.canary.age_s(now))
            for worker in self.dispatchers
            if worker.child is not None
        ]
