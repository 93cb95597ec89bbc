"""Processes that a fault of one ends all of: the dispatchers that share a GPU under MPS, or the weights on it. Else
each is alone in its own.

MPS reports a fatal fault of one client to all clients of that GPU, and a client that is killed at work may leave the
others hanging. So when one faults, all are ended and reaped, and only then what they held is put back: a mate that is
about to die, too, would take it. The daemon is restarted, and they start again: one of each model first, and the others
when it has run the suspects, the requests that may have caused the fault. So those run alone, and a second fault of
theirs hits nobody else's.

A model that is reloaded must not end those who serve. So a dispatcher that is still on trial, or that a reload removes,
is taken off the GPU before it is killed, which leaves its mates alone. One on trial that dies by a signal of its own
may have hurt them; that is seen by themselves: they fault, or get on no more and are killed. Only a fault that the GPU
reports to all counts at once, and whose trial it was is not tried again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from fastqps.devices import DeviceError
from fastqps.errors import DEVICE_FAULT, FAILURE, NO_DEVICE
from fastqps.process.children import LEAVE
from fastqps.supervisor.gpu.sharing import Sharing
from fastqps.supervisor.log import Log
from fastqps.supervisor.outcome import FATAL_AT_START, Outcome
from fastqps.supervisor.workers.child import Child, ended
from fastqps.supervisor.workers.dispatcher_slot import DispatcherSeat
from fastqps.supervisor.workers.restarts import WINDOW_S, RestartBudget
from fastqps.supervisor.workers.slot import Seat

FAULTS_MAX = 3  # in WINDOW_S of service; at the next one it stays down
POLL_S = 0.02
LEAVE_MAX_S = 1.0  # for the others to finish their steps
TAKE_OFF_MAX_S = 0.5
REAP_MAX_S = 30.0
SUSPECTS_MAX_S = 60.0  # then the others start all the same
MAY_BE_MPS = (FAILURE, NO_DEVICE)  # how a dispatcher ends for which CUDA does not start, for example


class Domain:
    """``seats``: one, or all dispatchers of a GPU whose ``sharing`` has them run together."""

    def __init__(self, seats: Sequence[Seat], outcome: Outcome, log: Log, sharing: Sharing | None = None) -> None:
        self.down = ""  # why all of it stays down
        self.checked = sharing is None
        self._seats = seats
        self._outcome = outcome
        self._log = log
        self._sharing = sharing
        self._name = sharing.label if sharing else seats[0].title
        self._budget = RestartBudget(FAULTS_MAX)
        self._served_s, self._seen_s = 0.0, dict[Seat, float]()  # at the last fault; of each seat
        self._unsettled: list[Seat] = []  # their processes are reaped
        self._restart: asyncio.Task[None] | None = None
        self._checking: asyncio.Task[None] | None = None
        self._led_s = 0.0  # when the first ones became ready
        self._open = len(seats) == 1  # for those behind the first ones

    # ---- what the keepers ask

    def fill(self) -> None:
        """A seat is filled, first or after it was vacant. Where it is the only one, the domain begins anew:
        what another generation's dispatcher did there is not held against this one."""
        if len(self._seats) == 1:
            self.down, self._budget = "", RestartBudget(FAULTS_MAX)

    async def admit(self, seat: Seat) -> bool:
        """Waits until the seat's process may start. False: it stays down, for the reason in ``down``."""
        while not self.down and not self._may_start(seat):
            await asyncio.sleep(POLL_S)
        return not self.down

    def faulted(self, seat: Seat, code: int | None) -> bool:
        """Whether a death is this domain's affair: a fault, or a consequence of one. Then it settles what the dead
        left, and ``admit`` says what follows. Otherwise the process alone is started again.
        """
        if self._restart is not None:
            self._unsettled.append(seat)
            return True
        fault = self._is_fault(seat, code)
        if not fault and seat.phase == "starting":
            fault = self._goes_without(code, f"{seat.title} does not start: {seat.last_line}")
        if fault:
            assert code is not None
            self._unsettled.append(seat)
            said = f" ({seat.last_line})" if code == DEVICE_FAULT else ""
            self._begin(f"{seat.title} {ended(code)}{said}")
        return fault

    def _is_fault(self, seat: Seat, code: int | None) -> bool:
        """Whether a death has hurt the others, or may have."""
        if seat.taken_off:
            return False
        if seat.on_trial:
            return code == DEVICE_FAULT and self._sharing is not None and self._sharing.one_context
        return code == DEVICE_FAULT or (code is not None and code < 0 and len(self._filled()) > 1)

    def cancel(self) -> list[asyncio.Task[None]]:
        """The server ends: no more restarts. What has to be waited for: a daemon may have to be killed first."""
        tasks = [task for task in (self._restart, self._checking) if task]
        for task in tasks:
            task.cancel()
        return tasks

    # ---- its own life, under MPS

    async def watch(self) -> None:
        """Counts the daemon's clients once all are ready, and sees when the daemon ends."""
        assert self._sharing
        while not self.down:
            await asyncio.sleep(POLL_S)
            if self._restart is not None:
                continue
            if lost := self._sharing.lost:
                starting = self._seats[0].phase == "starting" and not self._goes_without(lost.code, lost.reason)
                if starting and lost.code in FATAL_AT_START:
                    self._outcome.fail(lost.code, lost.reason)
                self._begin(lost.reason)
            elif not self.checked and all(seat.ready or seat.given_up for seat in self._filled()):
                self._checking = asyncio.create_task(self._check(self._sharing))
                await asyncio.wait([self._checking])

    async def _check(self, sharing: Sharing) -> None:
        try:
            await sharing.check([child.pid for child in self._children()])
        except DeviceError as error:
            if self._seats[0].phase == "starting":
                self._outcome.fail(error.exit_code, str(error))
                return
            self._log.event("supervisor", str(error))
        self.checked = True

    def _goes_without(self, code: int | None, reason: str) -> bool:
        """Whether what does not start is tried again without MPS, which may be the reason."""
        return code in MAY_BE_MPS and self._sharing is not None and self._sharing.renounce(reason)

    def _may_start(self, seat: Seat) -> bool:
        if self._restart is not None:
            return False
        return self._open or seat in self._first() or self._settled()

    def _filled(self) -> list[Seat]:
        """Those where there is a process, or shall be one."""
        return [seat for seat in self._seats if not seat.vacant]

    def _first(self) -> list[Seat]:
        """One of each model, and of each of its generations."""
        found: dict[int, Seat] = {}
        for seat in self._filled():
            if isinstance(seat, DispatcherSeat) and not seat.given_up and not seat.on_trial:
                found.setdefault(seat.route, seat)
        return list(found.values())

    def _settled(self) -> bool:
        """Whether the first ones serve and have taken all suspects. It stays so until the next fault."""
        first = self._first()
        if not all(seat.ready for seat in first):
            return False
        now = time.monotonic()
        self._led_s = self._led_s or now
        suspects = sum(seat.suspects_waiting() for seat in first if isinstance(seat, DispatcherSeat))
        if suspects and now - self._led_s > SUSPECTS_MAX_S:
            self._log.event("supervisor", f"{self._name}: {suspects} suspects still wait; the other dispatchers start")
            suspects = 0
        self._open = not suspects
        return self._open

    # ---- a fault

    def _begin(self, cause: str) -> None:
        if self._checking:
            self._checking.cancel()  # whom it counts will not be there
        delay_s = self._budget.next_delay_s(self._serve_until_now())
        if self.down:
            self._log.event("supervisor", f"{cause}: {self._name} is down")  # it could not be ended then
        elif delay_s is None:
            times = f"{FAULTS_MAX + 1} faults within {WINDOW_S:g} s of service"
            self.down = f"{times}; the last: {cause}"
            self._log.event("supervisor", f"{self._name} stays down: {self.down}")
        elif len(filled := self._filled()) > 1:
            self._log.event("supervisor", f"{cause}: restarting all {len(filled)} dispatchers of {self._name}")
        self._restart = asyncio.create_task(self._end_and_reopen(delay_s or 0.0))
        self._outcome.watch(self._restart)

    def _serve_until_now(self) -> float:
        """How long it has served: from fault to fault as long as the seat did that served longest. After a reload that
        is another one."""
        self._served_s += max(seat.served_s - self._seen_s.get(seat, 0.0) for seat in self._seats)
        self._seen_s = {seat: seat.served_s for seat in self._seats}
        return self._served_s

    async def _end_and_reopen(self, delay_s: float) -> None:
        await self._end_all()
        for seat in self._unsettled:
            seat.settle()
        self._unsettled.clear()
        if self._sharing and self.down:
            await self._sharing.close()
        elif self._sharing:
            try:
                await self._sharing.reopen()
            except DeviceError as error:
                self.down = str(error)
                self._log.event("supervisor", f"{self._name} stays down: {error}")
        await asyncio.sleep(delay_s)
        self._led_s, self._open, self.checked = 0.0, len(self._seats) == 1, self._sharing is None
        self._restart = None

    async def _end_all(self) -> None:
        """In the order that does least harm on the GPU; returns when all are reaped."""
        for child in self._children():
            child.signal(LEAVE)
        if await self._left(LEAVE_MAX_S) and self._sharing:
            await self._sharing.take_off([child.pid for child in self._children()], TAKE_OFF_MAX_S)
        for seat in self._seats:
            seat.kill("it did not end by itself")
        if await self._left(REAP_MAX_S):
            which = ", ".join(seat.title for seat in self._seats if seat.child)
            self.down = self.down or f"{which} cannot be ended: the driver holds it"
            self._log.event("supervisor", f"{self._name} stays down: {self.down}")

    async def _left(self, timeout_s: float) -> bool:
        """Waits for the seats to be empty. Whether some are not."""
        give_up = time.monotonic() + timeout_s
        while self._children() and time.monotonic() < give_up:
            await asyncio.sleep(POLL_S)
        return bool(self._children())

    def _children(self) -> list[Child]:
        return [seat.child for seat in self._seats if seat.child is not None]


def make_domains(seats: Sequence[Seat], outcome: Outcome, log: Log) -> dict[Seat, Domain]:
    """The domain of each seat, once it is known which GPUs are shared how."""
    found: dict[Seat, Domain] = {}
    joint: dict[Sharing, Domain] = {}
    for seat in seats:
        sharing = _shared(seat)
        if sharing is None:
            found[seat] = Domain([seat], outcome, log)
        elif sharing not in joint:
            joint[sharing] = Domain([s for s in seats if _shared(s) is sharing], outcome, log, sharing)
        if sharing:
            found[seat] = joint[sharing]
    return found


def _shared(seat: Seat) -> Sharing | None:
    """How it uses its GPU together with others; None: it has none, or for itself."""
    sharing = seat.sharing if isinstance(seat, DispatcherSeat) else None
    return sharing if sharing and sharing.together else None
