"""The dispatchers' seats, and which generation of which model is on them."""

from __future__ import annotations

from collections.abc import Sequence

from fastqps._core import GENERATIONS
from fastqps.supervisor.generation import Generation, first_generations
from fastqps.supervisor.plan import Plan
from fastqps.supervisor.shared import Shared
from fastqps.supervisor.workers.dispatcher_slot import DispatcherSeat


class Fleet:
    """``serving``: the generation of each model that answers, from the start on or since its last reload."""

    def __init__(self, seats: Sequence[DispatcherSeat], server: Plan, shared: Shared) -> None:
        self.seats = seats
        self.serving = first_generations(server)
        self._server = server
        self._shared = shared
        for first in self.serving:
            self.take_seats(first)

    def take_seats(self, generation: Generation) -> list[DispatcherSeat]:
        """Those of a generation that is going to start; they are vacant."""
        taken = [self.seats[i] for i in self._server.seats_of(generation.model, generation.number)]
        for seat in taken:
            assert seat.vacant
            seat.generation = generation
        return taken

    def seats_of(self, generation: Generation) -> list[DispatcherSeat]:
        """The seats that it has."""
        return [seat for seat in self.seats if seat.generation is generation]

    def filled(self) -> list[DispatcherSeat]:
        """Seats where there is a process, or shall be one."""
        return [seat for seat in self.seats if not seat.vacant]

    def serving_seats(self) -> list[DispatcherSeat]:
        """Those of what serves."""
        return [seat for generation in self.serving for seat in self.seats_of(generation)]

    def open(self) -> None:
        """The first generations serve."""
        for generation in self.serving:
            self._shared.segment.set_route_state(generation.route, "serving")
            self._shared.segment.serve(generation.model, generation.number)

    def flip(self, generation: Generation) -> int:
        """From now on this one serves, and the one before drains. What the front doors will have seen then."""
        self.serving[generation.model] = generation
        return self._shared.segment.flip(generation.model, generation.number)

    def set_routes(self) -> None:
        """Tells the front doors which dispatchers each route has."""
        masks = dict.fromkeys(range(len(self.serving) * GENERATIONS), 0)
        for seat in self.filled():
            if not seat.given_up:
                masks[seat.route] |= 1 << seat.index
        for route, mask in masks.items():
            self._shared.segment.set_route_dispatchers(route, mask)
