"""Maps each worker slot to the restarter that keeps it running."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

from fastqps.process.children import LEAVE
from fastqps.supervisor.gpu.failure_domain import Domain
from fastqps.supervisor.log import Log
from fastqps.supervisor.outcome import Outcome
from fastqps.supervisor.workers.dispatcher_slot import DispatcherSlot
from fastqps.supervisor.workers.restarter import Restarter
from fastqps.supervisor.workers.slot import WorkerSlot

REAP_MAX_S = 5.0  # after a SIGKILL


class WorkerPool:
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

    def restarter(self, worker: WorkerSlot) -> asyncio.Task[int]:
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
