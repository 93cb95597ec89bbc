"""Keeps one worker slot running: starts its process, settles after each death, restarts it within a budget."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterator, Sequence

from fastqps.errors import DEVICE_FAULT, FAILURE, OK
from fastqps.process.children import LEAVE
from fastqps.supervisor.child import ended
from fastqps.supervisor.log import SUPERVISOR, Log
from fastqps.supervisor.outcome import FATAL_AT_START, Outcome
from fastqps.supervisor.workers.dispatcher_slot import DispatcherSlot
from fastqps.supervisor.workers.failure_domain import Domain
from fastqps.supervisor.workers.frontdoor_slot import FrontDoorSlot
from fastqps.supervisor.workers.worker_slot import WorkerSlot
from fastqps.terminal import Level

REAP_MAX_S = 5.0  # after a SIGKILL


class Restarter:
    """Restarts the process of one worker slot. ``on_given_up`` is called when it stays down, and when it is back."""

    def __init__(
        self,
        worker: WorkerSlot,
        domain: Domain,
        listener_fd: int,
        outcome: Outcome,
        log: Log,
        on_given_up: Callable[[], None],
    ) -> None:
        self.worker = worker
        self._domain = domain
        self._listener_fd = listener_fd
        self._outcome = outcome
        self._log = log
        self._on_given_up = on_given_up
        self._is_door = isinstance(worker, FrontDoorSlot)

    async def run(self) -> int:
        """Runs until the worker slot is given up, or until a draining server no longer needs it.

        Returns the exit code of its process during the drain, or OK if there was none.
        """
        while True:
            if not await self._domain.admit(self.worker):
                self._give_up(self._domain.down)
                return OK
            code = await self._fill()
            faulted = self._domain.faulted(self.worker, code)
            if not faulted:
                self.worker.settle()
            if self.worker.retired:
                return OK
            # Under MPS all clients get the error in any order, so its cause is unknown. It may hit serving ones again.
            if self.worker.on_trial and code == DEVICE_FAULT:
                self._give_up(self.worker.last_line)
                return OK
            starting = self.worker.on_trial or self.worker.phase == "starting"
            if (starting and self._outcome.leaving.is_set()) or (self._is_door and self._outcome.draining.is_set()):
                return FAILURE if code is None else code
            if starting and code in FATAL_AT_START and not faulted:
                self._refuse(code)
                return OK
            if faulted:
                self.worker.restarts += not self._domain.down
                continue
            delay_s = self.worker.budget.next_delay_s(self.worker.served_s)
            if delay_s is None:
                self._give_up("died too often")
                return OK
            self.worker.restarts += 1
            await self._pause(delay_s)
            if self._is_door and self._outcome.draining.is_set():
                return OK

    async def _fill(self) -> int | None:
        """Runs one incarnation from its start until it is reaped. Returns its exit code; None if the system refused a
        process."""
        code: int | None = None
        worker = self.worker
        try:
            child = worker.start(self._listener_fd, os.getpid())
        except OSError as error:
            worker.last_line = str(error)
            self._log.error(f"cannot start {worker.title}: {error}")
        else:
            self._log.info(f"started {worker.title} (pid {child.pid})")
            code = await asyncio.shield(child.exited)
            level = Level.WARNING if code else Level.INFO
            self._log.event(SUPERVISOR, f"{worker.title} (pid {child.pid}) {ended(code)}", level)
            if child.killed and worker.given_up:  # it could not be ended until now
                worker.given_up = ""
                self._on_given_up()
        worker.child = None
        return code

    async def _pause(self, delay_s: float) -> None:
        if not self._is_door:
            await asyncio.sleep(delay_s)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._outcome.draining.wait()

    def _refuse(self, code: int) -> None:
        """Gives up a process that can never start."""
        if self.worker.on_trial:
            self._give_up(self.worker.last_line)
        else:
            self._outcome.fail(code, f"{self.worker.title} cannot start: {self.worker.last_line}")

    def _give_up(self, reason: str) -> None:
        self.worker.given_up = reason
        self._log.error(f"{self.worker.title} stays down: {reason}")
        self._on_given_up()
        if self.worker.phase == "starting" and not self.worker.on_trial:
            self._outcome.fail(
                FAILURE, f"{self.worker.title} does not start: {self._domain.down or self.worker.last_line}"
            )


class Restarters:
    """The restarters of all worker slots that have one. ``on_given_up``: as a ``Restarter``'s."""

    def __init__(self, listener_fd: int, outcome: Outcome, log: Log, on_given_up: Callable[[], None]) -> None:
        self._listener_fd = listener_fd
        self._outcome = outcome
        self._log = log
        self._on_given_up = on_given_up
        self._restarters: dict[WorkerSlot, asyncio.Task[int]] = {}

    def fill(self, worker: WorkerSlot, domain: Domain) -> None:
        """Keeps a process running in a worker slot from now on."""
        domain.fill()
        restarter = Restarter(worker, domain, self._listener_fd, self._outcome, self._log, self._on_given_up)
        self._restarters[worker] = asyncio.create_task(restarter.run())
        self._outcome.watch(self._restarters[worker])

    def of(self, worker: WorkerSlot) -> asyncio.Task[int]:
        """The task that ends when the worker slot is given up or no longer needed."""
        return self._restarters[worker]

    def __iter__(self) -> Iterator[asyncio.Task[int]]:
        return iter(self._restarters.values())

    async def empty(self, workers: Sequence[DispatcherSlot], grace_s: float) -> str:
        """Ends the slots' processes, by force after ``grace_s``, and empties the slots. Returns "", or why it
        cannot."""
        restarters = {
            worker: self._restarters[worker] for worker in workers if worker in self._restarters
        }  # a worker that never ran has no restarter
        for worker, restarter in restarters.items():
            worker.retired = True
            if worker.child:
                worker.child.signal(LEAVE)
            else:
                restarter.cancel()  # it waits for the next start
        if restarters:
            await asyncio.wait(restarters.values(), timeout=grace_s)
            await asyncio.gather(*(worker.remove("it did not leave by itself") for worker in restarters))
            await asyncio.wait(restarters.values(), timeout=REAP_MAX_S)
        if left := [worker for worker in workers if worker.child]:
            return f"{', '.join(worker.title for worker in left)} cannot be ended"
        for worker in workers:
            self._restarters.pop(worker, None)
            worker.clear()
        return ""
