"""The dispatchers' worker slots, and the generation that each serves."""

from __future__ import annotations

from collections.abc import Sequence

from fastqps._core import GENERATIONS
from fastqps.supervisor.generation import Generation, first_generations
from fastqps.supervisor.plan import Plan
from fastqps.supervisor.shared import Shared
from fastqps.supervisor.workers.dispatcher_slot import DispatcherSlot


class Fleet:
    """The worker slots of all dispatchers. ``serving``: the serving generation of each model."""

    def __init__(self, workers: Sequence[DispatcherSlot], server: Plan, shared: Shared) -> None:
        self.workers = workers
        self.serving = first_generations(server)
        self._server = server
        self._shared = shared
        for first in self.serving:
            self.take_workers(first)

    def take_workers(self, generation: Generation) -> list[DispatcherSlot]:
        """Takes the empty worker slots of a generation that is about to start."""
        taken = [self.workers[i] for i in self._server.workers_of(generation.model, generation.number)]
        for worker in taken:
            assert worker.empty
            worker.generation = generation
        return taken

    def workers_of(self, generation: Generation) -> list[DispatcherSlot]:
        """The worker slots of a generation."""
        return [worker for worker in self.workers if worker.generation is generation]

    def filled(self) -> list[DispatcherSlot]:
        """The worker slots that have a process or will get one."""
        return [worker for worker in self.workers if not worker.empty]

    def serving_workers(self) -> list[DispatcherSlot]:
        """The worker slots of all serving generations."""
        return [worker for generation in self.serving for worker in self.workers_of(generation)]

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
