"""Keeps one seat filled: starts its process, has settled what each death leaves, restarts it within a budget."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable

from fastqps.errors import DEVICE_FAULT, FAILURE, OK
from fastqps.supervisor.gpu.failure_domain import Domain
from fastqps.supervisor.log import Log
from fastqps.supervisor.outcome import FATAL_AT_START, Outcome
from fastqps.supervisor.workers.child import ended
from fastqps.supervisor.workers.frontdoor_slot import DoorSeat
from fastqps.supervisor.workers.slot import Seat


class Keeper:
    """One for each seat. ``on_given_up``: called when the seat's process stays down, and when it does not any more."""

    def __init__(
        self,
        seat: Seat,
        domain: Domain,
        listener_fd: int,
        outcome: Outcome,
        log: Log,
        on_given_up: Callable[[], None],
    ) -> None:
        self.seat = seat
        self._domain = domain
        self._listener_fd = listener_fd
        self._outcome = outcome
        self._log = log
        self._on_given_up = on_given_up
        self._is_door = isinstance(seat, DoorSeat)

    async def run(self) -> int:
        """Until the seat is given up, or the server drains and does not need it any more.

        Returns how its process ended while the server drained: OK also where there was none.
        """
        while True:
            if not await self._domain.admit(self.seat):
                self._give_up(self._domain.down)
                return OK
            code = await self._fill()
            faulted = self._domain.faulted(self.seat, code)
            if not faulted:
                self.seat.settle()
            if self.seat.retired:
                return OK
            # Under MPS all get the error, in any order, so whose it was is not known. It may hit those who serve again.
            if self.seat.on_trial and code == DEVICE_FAULT:
                self._give_up(self.seat.last_line)
                return OK
            starting = self.seat.on_trial or self.seat.phase == "starting"
            if (starting and self._outcome.leaving.is_set()) or (self._is_door and self._outcome.draining.is_set()):
                return FAILURE if code is None else code
            if starting and code in FATAL_AT_START and not faulted:
                self._refuse(code)
                return OK
            if faulted:
                self.seat.restarts += not self._domain.down
                continue
            delay_s = self.seat.budget.next_delay_s(self.seat.served_s)
            if delay_s is None:
                self._give_up("died too often")
                return OK
            self.seat.restarts += 1
            await self._pause(delay_s)
            if self._is_door and self._outcome.draining.is_set():
                return OK

    async def _fill(self) -> int | None:
        """One incarnation, from start to reaped; its exit code. None: the system gave us no process."""
        code: int | None = None
        seat = self.seat
        try:
            child = seat.start(self._listener_fd, os.getpid())
        except OSError as error:
            seat.last_line = str(error)
            self._log.event("supervisor", f"cannot start {seat.title}: {error}")
        else:
            self._log.event("supervisor", f"started {seat.title} (pid {child.pid})")
            code = await asyncio.shield(child.exited)
            self._log.event("supervisor", f"{seat.title} (pid {child.pid}) {ended(code)}")
            if child.killed and seat.given_up:  # nobody could end it until now
                seat.given_up = ""
                self._on_given_up()
        seat.child = None
        return code

    async def _pause(self, delay_s: float) -> None:
        if not self._is_door:
            await asyncio.sleep(delay_s)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._outcome.draining.wait()

    def _refuse(self, code: int) -> None:
        """Its process can never start."""
        if self.seat.on_trial:
            self._give_up(self.seat.last_line)
        else:
            self._outcome.fail(code, f"{self.seat.title} cannot start: {self.seat.last_line}")

    def _give_up(self, reason: str) -> None:
        self.seat.given_up = reason
        self._log.event("supervisor", f"{self.seat.title} stays down: {reason}")
        self._on_given_up()
        if self.seat.phase == "starting" and not self.seat.on_trial:
            self._outcome.fail(FAILURE, f"{self.seat.title} does not start: {self._domain.down or self.seat.last_line}")
