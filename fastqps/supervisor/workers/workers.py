"""All worker slots of a server and their shared state."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from fastqps._core import GENERATIONS
from fastqps.supervisor.child import System
from fastqps.supervisor.generation import Generation, first_generations
from fastqps.supervisor.gpu.sharing import Sharing
from fastqps.supervisor.log import Log
from fastqps.supervisor.plan import Plan
from fastqps.supervisor.shared import Shared
from fastqps.supervisor.workers.dispatcher_slot import DispatcherSlot
from fastqps.supervisor.workers.frontdoor_slot import FrontDoorSlot
from fastqps.supervisor.workers.worker_slot import WorkerSlot
from fastqps.telemetry.metrics.source import Canaries


class Workers:
    """``serving``: the serving generation of each model. ``sharings``: of the devices that are GPUs, by index."""

    def __init__(self, server: Plan, shared: Shared, log: Log, sharings: Mapping[int, Sharing], system: System) -> None:
        self.doors = [FrontDoorSlot(i, server, shared, log, system) for i in range(server.doors)]
        self.dispatchers = [DispatcherSlot(i, server, shared, log, system) for i in range(server.workers)]
        for worker in self.dispatchers:
            worker.sharing = sharings.get(server.device_of(worker.index))
        self.all: list[WorkerSlot] = [*self.dispatchers, *self.doors]
        self.sharings = sharings
        self.serving = first_generations(server)
        self._server = server
        self._shared = shared
        self._system = system
        for first in self.serving:
            self.take(first)

    # ---- dispatchers, by generation

    def take(self, generation: Generation) -> list[DispatcherSlot]:
        """Takes the empty worker slots of a generation that is about to start."""
        taken = [self.dispatchers[i] for i in self._server.workers_of(generation.model, generation.number)]
        for worker in taken:
            assert worker.empty
            worker.generation = generation
        return taken

    def of(self, generation: Generation) -> list[DispatcherSlot]:
        """The worker slots of a generation."""
        return [worker for worker in self.dispatchers if worker.generation is generation]

    def filled(self) -> list[DispatcherSlot]:
        """The worker slots that have a process or will get one."""
        return [worker for worker in self.dispatchers if not worker.empty]

    def of_serving(self) -> list[DispatcherSlot]:
        """The worker slots of all serving generations."""
        return [worker for generation in self.serving for worker in self.of(generation)]

    def open(self) -> None:
        """Makes the first generations serve."""
        for generation in self.serving:
            self._shared.segment.set_route_state(generation.route, "serving")
            self._shared.segment.serve(generation.model, generation.number)

    def flip(self, generation: Generation) -> int:
        """Makes this generation serve and its predecessor drain. Returns the number of flips that doors must see."""
        self.serving[generation.model] = generation
        return self._shared.segment.flip(generation.model, generation.number)

    def set_routes(self) -> None:
        """Tells the front doors which dispatchers each route has."""
        masks = dict.fromkeys(range(len(self.serving) * GENERATIONS), 0)
        for worker in self.filled():
            if not worker.given_up:
                masks[worker.route] |= 1 << worker.index
        for route, mask in masks.items():
            self._shared.segment.set_route_dispatchers(route, mask)

    # ---- what pages and metrics show

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
