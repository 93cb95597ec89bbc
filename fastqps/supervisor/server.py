"""The supervisor: starts everything, watches it, restarts what dies, drains. Never on the path of a request."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any

from fastqps._core import now_ns
from fastqps.errors import FAILURE, NO_DEVICE, NO_MODEL, NOT_DRAINED, OK, USAGE
from fastqps.readiness import Readiness, readiness
from fastqps.supervisor.listener import address, listen, reachable
from fastqps.supervisor.log import Log
from fastqps.supervisor.plan import Plan
from fastqps.supervisor.seat import DispatcherSeat, DoorSeat, Seat
from fastqps.supervisor.shared import GENERATION, Shared, route_of
from fastqps.supervisor.watch import TICK_NS, OwnTime

# A child that cannot start for one of these reasons never will: the server ends with the same code.
FATAL_AT_START = (USAGE, NO_DEVICE, NO_MODEL)
READY_POLL_S = 0.02
STOP_GRACE_S = 2.0  # for dispatchers without work, which look for SIGTERM once a second
DRAIN_SLACK_S = 1.0  # a front door keeps the drain's deadline itself; after this much more it is killed
REAP_MAX_S = 5.0
REFUSE_AFTER_S = 0.25


class Supervisor:
    """One server, from its first process to its last. ``modules``: other programs than the usual, by role."""

    def __init__(
        self,
        server: Plan,
        shared: Shared,
        listener: socket.socket,
        log: Log,
        modules: Mapping[str, str] | None = None,
    ) -> None:
        modules = modules or {}
        self.server = server
        self.shared = shared
        self.segment = shared.segment
        self.models: Sequence[str] = [card.name for card in server.cards]
        self.device = server.config.device
        self.listener = listener
        self.log = log
        self.doors = [DoorSeat(i, server, shared, log, modules.get("frontdoor")) for i in range(server.doors)]
        self.dispatchers = [
            DispatcherSeat(i, server, shared, log, modules.get("dispatcher")) for i in range(server.dispatchers)
        ]
        self.seats: list[Seat] = [*self.dispatchers, *self.doors]
        self.started_s = time.monotonic()
        self._keepers: dict[Seat, asyncio.Task[int | None]] = {}
        self._leaving = asyncio.Event()  # the first signal
        self._hurry = asyncio.Event()  # the second
        self._failed: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    # ---- what the admin pages ask

    def readiness(self) -> Readiness:
        """For /readyz and /livez."""
        return readiness(self.segment.phase, self.doors, self.dispatchers, self.models)

    def restarts(self) -> dict[str, int]:
        """How often processes were started again, by role."""
        seats: dict[str, list[Seat]] = {"frontdoor": [*self.doors], "dispatcher": [*self.dispatchers]}
        return {role: sum(seat.budget.total for seat in found) for role, found in seats.items()}

    def route_of(self, model: int) -> int:
        """The route that answers for a model."""
        return route_of(model)

    def model_of(self, dispatcher: int) -> int:
        """The model that a dispatcher serves."""
        return self.server.model_of(dispatcher)

    def grpc_address(self) -> str:
        """Where the server's own gRPC port answers."""
        return reachable(self.listener)

    # ---- its life

    async def run(self, admin: str) -> int:
        """Serves until a signal or a failure ends it; the exit code. ``admin``: the address of its pages, to log."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        watcher = loop.create_task(self._watch())
        watcher.add_done_callback(self._on_task_end)
        try:
            for seat in self.seats:
                keeper = loop.create_task(self._keep(seat))
                keeper.add_done_callback(self._on_task_end)
                self._keepers[seat] = keeper
            if await self._until_ready():
                self._open(admin)
                await self._first(self._leaving.wait())
                if self._leaving.is_set() and not self._failed.done():
                    return await self._drain()
            return self._failed.result() if self._failed.done() else OK
        finally:
            await self._end(watcher)

    # ---- start

    async def _until_ready(self) -> bool:
        """Waits until every process is ready; False: a signal or a failure came first."""
        while not all(seat.ready for seat in self.seats):
            if self._leaving.is_set() or self._failed.done():
                return False
            await asyncio.sleep(READY_POLL_S)
        return True

    def _open(self, admin: str) -> None:
        """Lets the clients in, and says so."""
        segment = self.segment
        for model in range(len(self.server.cards)):
            segment.set_route_state(route_of(model), "serving")
            segment.serve(model, GENERATION)
        segment.set_phase("serving")
        listen(self.listener, "--port")
        models = ", ".join(f"{card.name}@{card.version}" for card in self.server.cards)
        took = time.monotonic() - self.started_s
        self.log.event(
            "supervisor",
            f"ready: {models} on {self.device} at {address(self.listener)}, admin {admin} ({took:.1f} s)",
        )

    # ---- keep each seat filled

    async def _keep(self, seat: Seat) -> int | None:
        """Starts the seat's process and restarts it within its budget. Returns its last exit code, for the drain."""
        while True:
            code = await self._fill(seat)
            starting = self.segment.phase == "starting"
            if self._leaving.is_set() and (starting or isinstance(seat, DoorSeat)):
                return code
            if starting and code in FATAL_AT_START:
                self._fail(code, f"{seat.title} cannot start: {seat.last_line}")
                return code
            delay_s = seat.budget.next_delay_s(time.monotonic())
            if delay_s is None:
                self._give_up(seat)
                return code
            await self._pause(delay_s)
            if self._leaving.is_set() and isinstance(seat, DoorSeat):
                return OK  # it was not there: nothing of it is left to drain

    async def _fill(self, seat: Seat) -> int | None:
        """One incarnation, from start to settled. None: the system gave us no process."""
        code: int | None = None
        try:
            child = seat.start(self.listener.fileno(), os.getpid())
        except OSError as error:
            self.log.event("supervisor", f"cannot start {seat.title}: {error}")
        else:
            self.log.event("supervisor", f"started {seat.title} (pid {child.pid})")
            code = await asyncio.shield(child.exited)
            self.log.event("supervisor", f"{seat.title} (pid {child.pid}) {_ended(code)}")
        seat.child = None
        seat.settle()
        return code

    async def _pause(self, delay_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._leaving.wait()

    def _give_up(self, seat: Seat) -> None:
        seat.given_up = True
        self.log.event("supervisor", f"{seat.title} died too often and stays down")
        if isinstance(seat, DispatcherSeat):
            self.set_routes()
        if self.segment.phase == "starting":
            self._fail(FAILURE, f"{seat.title} does not start: {seat.last_line}")

    def set_routes(self) -> None:
        """Tells the front doors which dispatchers each model has."""
        for model in range(len(self.server.cards)):
            mask = sum(1 << s.index for s in self.dispatchers if s.model == model and not s.given_up)
            self.segment.set_route_dispatchers(route_of(model), mask)

    # ---- watch

    async def _watch(self) -> None:
        """Kills what does not get on. Its keeper then restarts it."""
        own = OwnTime(now_ns())
        timeout_ns = self.server.config.step_timeout_ns
        while True:
            await asyncio.sleep(TICK_NS / 1e9)
            now = now_ns()
            charge_ns = own.tick(now)
            for seat in self.seats:
                if reason := seat.overdue(now, charge_ns, timeout_ns):
                    seat.kill(reason)

    # ---- end

    async def _drain(self) -> int:
        """Lets the front doors finish what is open; then ends the dispatchers. The exit code."""
        timeout_s = self.server.config.drain_timeout_ns / 1e9
        self.segment.set_phase("draining", now_ns() + self.server.config.drain_timeout_ns)
        self.log.event("supervisor", f"draining, at most {timeout_s:g} s; a second signal stops at once")
        self.shared.wake_everybody()
        keepers = [self._keepers[door] for door in self.doors]
        finished = asyncio.wait(keepers, timeout=timeout_s + DRAIN_SLACK_S)
        await self._first(finished, self._hurry.wait(), self._refuse_clients())
        drained = all(keeper.done() and keeper.result() == OK for keeper in keepers)
        return OK if drained else NOT_DRAINED

    async def _refuse_clients(self) -> None:
        """Once the front doors have let go of the listening socket: nobody would accept who comes now."""
        await asyncio.sleep(REFUSE_AFTER_S)
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        await asyncio.Event().wait()

    async def _end(self, watcher: asyncio.Task[None]) -> None:
        """No process is left behind, whatever happened before."""
        self._leaving.set()
        self.segment.set_phase("stopping")
        self.shared.wake_everybody()
        watcher.cancel()
        for keeper in self._keepers.values():
            keeper.cancel()
        grace_s = 0.0 if self._hurry.is_set() or self._failed.done() else STOP_GRACE_S
        children = [(seat, seat.child) for seat in self.seats if seat.child is not None]
        stops = [
            child.stop(grace_s if isinstance(seat, DispatcherSeat) else 0.0)
            for seat, child in children
            if not child.exited.done()
        ]
        if stops:
            done = asyncio.gather(*stops)
            await asyncio.wait([done], timeout=REAP_MAX_S)
        left = [f"{seat.title} (pid {child.pid})" for seat, child in children if not child.exited.done()]
        self.log.event("supervisor", f"stopped; not ended: {', '.join(left)}" if left else "stopped")

    async def _first(self, *things: Any) -> None:
        """Waits until one of the coroutines ends, or the server has failed."""
        tasks = [asyncio.ensure_future(thing) for thing in things]
        await asyncio.wait([*tasks, self._failed], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()

    def _on_signal(self, number: signal.Signals) -> None:
        if self._leaving.is_set():
            self.log.event("supervisor", f"{number.name} again: stopping at once")
            self._hurry.set()
            return
        self.log.event("supervisor", number.name)
        self._leaving.set()

    def _fail(self, code: int, message: str) -> None:
        if not self._failed.done():
            self.log.event("supervisor", message)
            self._failed.set_result(code)

    def _on_task_end(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(FAILURE, f"broken: {error!r}")


def _ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
