"""All seats of a server, and what is common to them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from fastqps._core import now_ns
from fastqps.supervisor.gpu.sharing import Sharing
from fastqps.supervisor.log import Log
from fastqps.supervisor.plan import Plan
from fastqps.supervisor.shared import Shared
from fastqps.supervisor.workers.dispatcher_slot import DispatcherSeat
from fastqps.supervisor.workers.fleet import Fleet
from fastqps.supervisor.workers.frontdoor_slot import DoorSeat
from fastqps.supervisor.workers.slot import Seat
from fastqps.telemetry.metrics.canaries import Canaries


class Seats:
    """``modules``: other programs than the usual, by role. ``sharings``: of the devices that are GPUs, by index."""

    def __init__(
        self, server: Plan, shared: Shared, log: Log, modules: Mapping[str, str], sharings: Mapping[int, Sharing]
    ) -> None:
        self.doors = [DoorSeat(i, server, shared, log, modules.get("frontdoor")) for i in range(server.doors)]
        self.dispatchers = [
            DispatcherSeat(i, server, shared, log, modules.get("dispatcher")) for i in range(server.seats)
        ]
        for seat in self.dispatchers:
            seat.sharing = sharings.get(server.device_of(seat.index))
        self.all: list[Seat] = [*self.dispatchers, *self.doors]
        self.sharings = sharings
        self.fleet = Fleet(self.dispatchers, server, shared)

    def processes(self) -> Iterator[tuple[str, int]]:
        """All that the server consists of now: (role, pid)."""
        yield "supervisor", os.getpid()
        for seat in self.all:
            if seat.child:
                yield seat.role, seat.child.pid
        for door in self.doors:
            if door.child:
                yield from (("tokenizer", pid) for pid in door.line["tokenizers"])
        for sharing in self.sharings.values():
            yield from sharing.processes()

    def restarts(self) -> dict[str, int]:
        """How often processes were started again, by role."""
        found = {"frontdoor": 0, "dispatcher": 0}
        for seat in self.all:
            found[seat.role] += seat.restarts
        return found

    def canaries(self) -> list[Canaries]:
        """How the dispatchers that run answered the server's own requests."""
        now = now_ns()
        return [
            Canaries(seat.index, int(seat.line["canaries"]), seat.canary.missed, seat.canary.age_s(now))
            for seat in self.dispatchers
            if seat.child is not None
        ]
