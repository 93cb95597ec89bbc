"""A failure domain: dispatchers that must restart together, because they share a GPU under MPS, or the weights on it.

Any other process is alone in its domain. MPS reports a fatal fault of one client to all clients of that GPU, and
killing a client at work may leave the others hanging. So after a fault all dispatchers are ended and reaped. Only
then are their requests put back, because another dispatcher that is about to die would take them. The daemon is
restarted. Then one dispatcher of each model starts and runs the suspects, the requests that may have caused the
fault. The others start after that, so a second fault of a suspect harms no other request.

A reload must not end the serving dispatchers. So a dispatcher on trial (of a generation that does not serve yet), or
one that a reload removes, is taken off the GPU before it is killed, which spares the others. If one on trial dies by
itself, it may have harmed the others. They then fault too, or make no progress and are killed. Only a fault that the
GPU reports to all counts at once, and the generation on trial is not tried again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from fastqps.devices import DeviceError
from fastqps.errors import DEVICE_FAULT, FAILURE, NO_DEVICE
from fastqps.process.children import LEAVE
from fastqps.supervisor.child import Child, ended
from fastqps.supervisor.gpu.sharing import Sharing
from fastqps.supervisor.log import Log
from fastqps.supervisor.outcome import FATAL_AT_START, Outcome
from fastqps.supervisor.workers.dispatcher_slot import DispatcherSlot
from fastqps.supervisor.workers.worker_slot import WINDOW_S, RestartBudget, WorkerSlot

FAULTS_MAX = 3  # faults in WINDOW_S of service; at the next one the domain stays down
POLL_S = 0.02
LEAVE_MAX_S = 1.0  # time for the others to finish their steps
TAKE_OFF_MAX_S = 0.5
REAP_MAX_S = 30.0
SUSPECTS_MAX_S = 60.0  # after this time the others start anyway
MAY_BE_MPS = (FAILURE, NO_DEVICE)  # for example the exit code if CUDA does not start


class Domain:
    """``workers``: one worker slot, or all dispatchers of a GPU if its ``sharing`` lets them run together."""

    def __init__(
        self, workers: Sequence[WorkerSlot], outcome: Outcome, log: Log, sharing: Sharing | None = None
    ) -> None:
        self.down = ""  # why all of it stays down
        self.checked = sharing is None
        self._workers = workers
        self._outcome = outcome
        self._log = log
        self._sharing = sharing
        self._name = sharing.label if sharing else workers[0].title
        self._budget = RestartBudget(FAULTS_MAX)
        self._served_s, self._seen_s = 0.0, dict[WorkerSlot, float]()  # of each worker slot, at the last fault
        self._unsettled: list[WorkerSlot] = []  # their processes are reaped
        self._restart: asyncio.Task[None] | None = None
        self._checking: asyncio.Task[None] | None = None
        self._led_s = 0.0  # when the first ones became ready
        self._open = len(workers) == 1  # set when the others may start

    # ---- called by restarters

    def fill(self) -> None:
        """Records that a worker slot is filled, first or after it was empty. If it is the only one, the domain begins
        anew: what another generation's dispatcher did there is not held against this one."""
        if len(self._workers) == 1:
            self.down, self._budget = "", RestartBudget(FAULTS_MAX)

    async def admit(self, worker: WorkerSlot) -> bool:
        """Waits until the worker slot's process may start. Returns False if it stays down, for the reason in
        ``down``."""
        while not self.down and not self._may_start(worker):
            await asyncio.sleep(POLL_S)
        return not self.down

    def faulted(self, worker: WorkerSlot, code: int | None) -> bool:
        """Whether the domain handles a death, because it is a fault or a consequence of one.

        If so, it settles the dead process, and ``admit`` decides what follows. Otherwise only that process restarts.
        """
        if self._restart is not None:
            self._unsettled.append(worker)
            return True
        fault = self._is_fault(worker, code)
        if not fault and worker.phase == "starting":
            fault = self._goes_without(code, f"{worker.title} does not start: {worker.last_line}")
        if fault:
            assert code is not None
            self._unsettled.append(worker)
            said = f" ({worker.last_line})" if code == DEVICE_FAULT else ""
            self._begin(f"{worker.title} {ended(code)}{said}")
        return fault

    def _is_fault(self, worker: WorkerSlot, code: int | None) -> bool:
        """Whether a death has harmed the others, or may have."""
        if worker.taken_off:
            return False
        if worker.on_trial:
            return code == DEVICE_FAULT and self._sharing is not None and self._sharing.one_context
        return code == DEVICE_FAULT or (code is not None and code < 0 and len(self._filled()) > 1)

    def cancel(self) -> list[asyncio.Task[None]]:
        """Cancels all restarts. Returns the tasks to wait for, because one may have to kill a daemon first."""
        tasks = [task for task in (self._restart, self._checking) if task]
        for task in tasks:
            task.cancel()
        return tasks

    # ---- its own task, under MPS

    async def watch(self) -> None:
        """Counts the daemon's clients once all are ready, and then watches the daemon."""
        assert self._sharing
        while not self.down:
            await asyncio.sleep(POLL_S)
            if self._restart is not None:
                continue
            if lost := self._sharing.lost:
                starting = self._workers[0].phase == "starting" and not self._goes_without(lost.code, lost.reason)
                if starting and lost.code in FATAL_AT_START:
                    self._outcome.fail(lost.code, lost.reason)
                self._begin(lost.reason)
            elif not self.checked and all(worker.ready or worker.given_up for worker in self._filled()):
                self._checking = asyncio.create_task(self._check(self._sharing))
                await asyncio.wait([self._checking])

    async def _check(self, sharing: Sharing) -> None:
        try:
            await sharing.check([child.pid for child in self._children()])
        except DeviceError as error:
            if self._workers[0].phase == "starting":
                self._outcome.fail(error.exit_code, str(error))
                return
            self._log.error(str(error))
        self.checked = True

    def _goes_without(self, code: int | None, reason: str) -> bool:
        """Whether dispatchers that do not start are tried without MPS, which may be the reason."""
        return code in MAY_BE_MPS and self._sharing is not None and self._sharing.renounce(reason)

    def _may_start(self, worker: WorkerSlot) -> bool:
        if self._restart is not None:
            return False
        return self._open or worker in self._first() or self._settled()

    def _filled(self) -> list[WorkerSlot]:
        """The worker slots that have a process or will get one."""
        return [worker for worker in self._workers if not worker.empty]

    def _first(self) -> list[WorkerSlot]:
        """One worker slot of each generation of each model."""
        found: dict[int, WorkerSlot] = {}
        for worker in self._filled():
            if isinstance(worker, DispatcherSlot) and not worker.given_up and not worker.on_trial:
                found.setdefault(worker.route, worker)
        return list(found.values())

    def _settled(self) -> bool:
        """Whether the first ones serve and have run all suspects. It stays true until the next fault."""
        first = self._first()
        if not all(worker.ready for worker in first):
            return False
        now = asyncio.get_running_loop().time()
        self._led_s = self._led_s or now
        suspects = sum(worker.suspects_waiting() for worker in first if isinstance(worker, DispatcherSlot))
        if suspects and now - self._led_s > SUSPECTS_MAX_S:
            self._log.warning(f"{self._name}: {suspects} suspects still wait; the other dispatchers start")
            suspects = 0
        self._open = not suspects
        return self._open

    # ---- a fault

    def _begin(self, cause: str) -> None:
        if self._checking:
            self._checking.cancel()  # the processes that it counts are about to end
        delay_s = self._budget.next_delay_s(self._serve_until_now())
        if self.down:
            self._log.error(f"{cause}: {self._name} is down")  # it could not be ended at that time
        elif delay_s is None:
            times = f"{FAULTS_MAX + 1} faults within {WINDOW_S:g} s of service"
            self.down = f"{times}; the last: {cause}"
            self._log.error(f"{self._name} stays down: {self.down}")
        elif len(filled := self._filled()) > 1:
            self._log.warning(f"{cause}: restarting all {len(filled)} dispatchers of {self._name}")
        self._restart = asyncio.create_task(self._end_and_reopen(delay_s or 0.0))
        self._outcome.watch(self._restart)

    def _serve_until_now(self) -> float:
        """Adds up how long the domain has served: between two faults, as long as the worker that served longest. A
        reload can change which one that is."""
        self._served_s += max(worker.served_s - self._seen_s.get(worker, 0.0) for worker in self._workers)
        self._seen_s = {worker: worker.served_s for worker in self._workers}
        return self._served_s

    async def _end_and_reopen(self, delay_s: float) -> None:
        await self._end_all()
        for worker in self._unsettled:
            worker.settle()
        self._unsettled.clear()
        if self._sharing and self.down:
            await self._sharing.close()
        elif self._sharing:
            try:
                await self._sharing.reopen()
            except DeviceError as error:
                self.down = str(error)
                self._log.error(f"{self._name} stays down: {error}")
        await asyncio.sleep(delay_s)
        self._led_s, self._open, self.checked = 0.0, len(self._workers) == 1, self._sharing is None
        self._restart = None

    async def _end_all(self) -> None:
        """Ends all processes, in the order that does least harm on the GPU. Returns when all are reaped."""
        for child in self._children():
            child.signal(LEAVE)
        if await self._left(LEAVE_MAX_S) and self._sharing:
            await self._sharing.take_off([child.pid for child in self._children()], TAKE_OFF_MAX_S)
        for worker in self._workers:
            worker.kill("it did not end by itself")
        if await self._left(REAP_MAX_S):
            which = ", ".join(worker.title for worker in self._workers if worker.child)
            self.down = self.down or f"{which} cannot be ended: the driver holds it"
            self._log.error(f"{self._name} stays down: {self.down}")

    async def _left(self, timeout_s: float) -> bool:
        """Waits for the worker slots to become empty. Returns whether some do not."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + timeout_s
        while self._children() and loop.time() < give_up:
            await asyncio.sleep(POLL_S)
        return bool(self._children())

    def _children(self) -> list[Child]:
        return [worker.child for worker in self._workers if worker.child is not None]


def make_domains(workers: Sequence[WorkerSlot], outcome: Outcome, log: Log) -> dict[WorkerSlot, Domain]:
    """Returns the domain of each worker slot. The sharing of each GPU must be known."""
    found: dict[WorkerSlot, Domain] = {}
    joint: dict[Sharing, Domain] = {}
    for worker in workers:
        sharing = _shared(worker)
        if sharing is None:
            found[worker] = Domain([worker], outcome, log)
        elif sharing not in joint:
            joint[sharing] = Domain([s for s in workers if _shared(s) is sharing], outcome, log, sharing)
        if sharing:
            found[worker] = joint[sharing]
    return found


def _shared(worker: WorkerSlot) -> Sharing | None:
    """How a worker shares its GPU; None if it has no GPU, or has one alone."""
    sharing = worker.sharing if isinstance(worker, DispatcherSlot) else None
    return sharing if sharing and sharing.together else None
