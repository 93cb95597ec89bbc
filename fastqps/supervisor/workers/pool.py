"""Who keeps which seat filled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

from fastqps.process.children import LEAVE
from fastqps.supervisor.gpu.failure_domain import Domain
from fastqps.supervisor.log import Log
from fastqps.supervisor.outcome import Outcome
from fastqps.supervisor.workers.dispatcher_slot import DispatcherSeat
from fastqps.supervisor.workers.restarter import Keeper
from fastqps.supervisor.workers.slot import Seat

REAP_MAX_S = 5.0  # after a SIGKILL


class Crew:
    """The keepers of all seats that have one. ``on_given_up``: as a ``Keeper``'s."""

    def __init__(self, listener_fd: int, outcome: Outcome, log: Log, on_given_up: Callable[[], None]) -> None:
        self._listener_fd = listener_fd
        self._outcome = outcome
        self._log = log
        self._on_given_up = on_given_up
        self._keepers: dict[Seat, asyncio.Task[int]] = {}

    def fill(self, seat: Seat, domain: Domain) -> None:
        """From now on there is a process in it, whatever becomes of each."""
        domain.fill()
        keeper = Keeper(seat, domain, self._listener_fd, self._outcome, self._log, self._on_given_up)
        self._keepers[seat] = asyncio.create_task(keeper.run())
        self._outcome.watch(self._keepers[seat])

    def keeper(self, seat: Seat) -> asyncio.Task[int]:
        """Ends when the seat is given up, or not needed any more."""
        return self._keepers[seat]

    def __iter__(self) -> Iterator[asyncio.Task[int]]:
        return iter(self._keepers.values())

    async def empty(self, seats: Sequence[DispatcherSeat], grace_s: float) -> str:
        """Has their processes leave, by force after ``grace_s``, and leaves the seats vacant. "", or why it cannot."""
        keepers = {seat: self._keepers[seat] for seat in seats if seat in self._keepers}  # none of a seat never filled
        for seat, keeper in keepers.items():
            seat.retired = True
            if seat.child:
                seat.child.signal(LEAVE)
            else:
                keeper.cancel()  # it waits for the next start
        if keepers:
            await asyncio.wait(keepers.values(), timeout=grace_s)
            await asyncio.gather(*(seat.remove("it did not leave by itself") for seat in keepers))
            await asyncio.wait(keepers.values(), timeout=REAP_MAX_S)
        if left := [seat for seat in seats if seat.child]:
            return f"{', '.join(seat.title for seat in left)} cannot be ended"
        for seat in seats:
            self._keepers.pop(seat, None)
            seat.vacate()
        return ""
