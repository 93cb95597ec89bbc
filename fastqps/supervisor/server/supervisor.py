"""The supervisor: starts, watches and drains all processes, and restarts those that die. No request passes through
it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import socket
import time
from collections.abc import Coroutine, Mapping
from typing import Any

from fastqps.errors import FAILURE, NOT_DRAINED, OK
from fastqps.process.background import UnexpectedError, in_background
from fastqps.process.startup import process_start_s
from fastqps.supervisor.child import HOST, System
from fastqps.supervisor.credentials.watch import CredentialWatch
from fastqps.supervisor.gpu.sharing import Sharing
from fastqps.supervisor.listener import address, listen, refuse_new
from fastqps.supervisor.log import Log
from fastqps.supervisor.outcome import Outcome
from fastqps.supervisor.plan import Plan
from fastqps.supervisor.reload.reload import Reloader
from fastqps.supervisor.reload.reloads import Reloads
from fastqps.supervisor.server.view import RuntimeLimits, View
from fastqps.supervisor.shared import Shared
from fastqps.supervisor.workers.dispatcher_slot import DispatcherSlot
from fastqps.supervisor.workers.failure_domain import Domain, make_domains
from fastqps.supervisor.workers.progress import TICK_NS, OwnTime
from fastqps.supervisor.workers.restarter import Restarters
from fastqps.supervisor.workers.worker_slot import WorkerSlot
from fastqps.supervisor.workers.workers import Workers
from fastqps.telemetry.tracing import Tracing

READY_POLL_S = 0.02
DRAIN_SLACK_S = 1.0  # a front door keeps the drain's deadline itself; after this much more it is killed
ACCEPT_S = 0.1  # time for front doors to accept connected clients; a sleeping one checks every 0.1 s
STOP_GRACE_S = 2.0  # time for idle dispatchers to end
REAP_MAX_S = 5.0
TRACING_GRACE_S = 2.0  # time for the last spans to reach the collector


class Supervisor:
    """One server, from its first process to its last.

    ``sharings``: of the devices that are GPUs, by index.
    """

    def __init__(
        self,
        server: Plan,
        shared: Shared,
        listener: socket.socket,
        log: Log,
        credentials: CredentialWatch,
        sharings: Mapping[int, Sharing],
        tracing: Tracing | None,
        system: System = HOST,
    ) -> None:
        self.server = server
        self.shared = shared
        self.segment = shared.segment
        self.listener = listener
        self.credentials = credentials
        self.log = log
        self.workers = Workers(server, shared, log, sharings, system)
        self.started_s = process_start_s()
        self._tracing = tracing
        self._now_ns = system.now_ns
        self._outcome = Outcome(log)
        self._restarters = Restarters(listener.fileno(), self._outcome, log, self._on_given_up)
        self._domains: dict[WorkerSlot, Domain] = {}
        reloader = Reloader(server, shared, self.workers, self._restarters, log)
        self.reloads = Reloads(reloader, [card.name for card in server.cards], self._domains, self._outcome, log)
        limits = RuntimeLimits(server, shared, self.workers, log)
        self.view = View(server, shared, self.workers, credentials, self.reloads, limits, tracing)
        self._watchers: list[asyncio.Task[None]] = []
        self._drained = False

    # ---- its life

    async def run(self, admin: str) -> int:
        """Serves until a signal or a failure ends it; the exit code. ``admin``: the address of its pages, to log."""
        self._outcome.take_signals(self.reloads.start_all)
        try:
            await self._start()
            if await self._until_ready():
                self._open(admin)
                await self._outcome.first(self._outcome.leaving.wait())
                await self._lame_duck()
                if self._outcome.failed is None:
                    return await self._drain()
            return self._outcome.failed or OK
        finally:
            await self._end()

    def depend_on(self, task: asyncio.Task[None]) -> None:
        """Makes the server end if this task raises."""
        self._outcome.watch(task)

    # ---- start

    async def _start(self) -> None:
        """Starts all processes. Raises ``DeviceError`` if a GPU cannot be shared as asked."""
        for sharing in self.workers.sharings.values():
            opening = asyncio.ensure_future(sharing.open())
            await self._outcome.first(opening, self._outcome.leaving.wait())
            if not opening.done():  # a signal came while its daemon did not answer
                return
            opening.result()
        self._watch_over(self._watch())
        self._watch_over(self.credentials.run(self.log))
        if self._tracing:
            self._watch_over(self._tracing.run())
        self._domains.update(make_domains(self.workers.all, self._outcome, self.log))
        for domain in dict.fromkeys(self._domains.values()):
            if not domain.checked:
                self._watch_over(domain.watch())
        for worker, domain in self._domains.items():
            if not worker.empty:
                self._restarters.fill(worker, domain)

    def _watch_over(self, watch: Coroutine[Any, Any, None]) -> None:
        self._watchers.append(asyncio.create_task(watch))
        self._outcome.watch(self._watchers[-1])

    async def _until_ready(self) -> bool:
        """Waits until every process is ready; False: a signal or a failure came first."""
        workers = [worker for worker in self.workers.all if not worker.empty]
        while not all(worker.ready for worker in workers) or not all(
            self._domains[worker].checked for worker in workers
        ):
            if self._outcome.leaving.is_set() or self._outcome.failed is not None:
                return False
            await asyncio.sleep(READY_POLL_S)
        return True

    def _open(self, admin: str) -> None:
        """Starts to accept clients, and logs it."""
        self.workers.open()
        self.segment.set_phase("serving")
        listen(self.listener, "--port")
        if self.shared.http:
            listen(self.shared.http, "--http-port")
        self.shared.wake_everybody()  # otherwise the front doors would see the phase only when their sleep ends
        models = ", ".join(generation.name for generation in self.workers.serving)
        took_s = time.monotonic() - self.started_s
        http = f", http {address(self.shared.http)}" if self.shared.http else ""
        where = f"at {address(self.listener)}{http}, admin {admin} with the live page at /live"
        self.log.info(
            f"ready: {models} on {self.view.device} {where} ({took_s:.1f} s, pid {os.getpid()})",
        )

    # ---- watch

    async def _watch(self) -> None:
        """Kills processes that make no progress. Their restarters then restart them."""
        own = OwnTime(self._now_ns())
        timeout_ns = self.server.config.step_timeout_ns
        while True:
            await asyncio.sleep(TICK_NS / 1e9)
            self.view.busy.update()
            now = self._now_ns()
            charge_ns = own.tick(now)
            for worker in self.workers.all:
                if reason := worker.overdue(now, charge_ns, timeout_ns):
                    worker.kill(reason)
                elif worker.cannot_be_ended(charge_ns):
                    self.workers.set_routes()
                    if worker.phase == "starting" and not worker.on_trial:
                        self._outcome.fail(FAILURE, f"{worker.title} does not start: {worker.given_up}")

    def _on_given_up(self) -> None:
        """A process stays down, or is back. Without front doors clients would connect and wait for ever."""
        self.workers.set_routes()
        if all(door.given_up for door in self.workers.doors):
            self._outcome.fail(FAILURE, "every front door stays down, and no client can be answered")

    # ---- end

    async def _lame_duck(self) -> None:
        """Serves as before but reports not ready, so that load balancers have time to notice."""
        lame_duck_s = self.server.config.lame_duck_ns / 1e9
        if not lame_duck_s or self._outcome.failed is not None:
            return
        self.segment.set_phase("lame duck")
        self.log.info(f"lame duck: serving for {lame_duck_s:g} s more; a second signal stops at once")
        self.shared.wake_everybody()
        await self._outcome.first(asyncio.sleep(lame_duck_s), self._outcome.hurry.wait())

    async def _drain(self) -> int:
        """Lets the front doors finish what is open; then ends the dispatchers. The exit code."""
        self._outcome.draining.set()
        self.reloads.cancel()
        timeout_s = self.server.config.drain_timeout_ns / 1e9
        await self._refuse_clients()
        self.segment.set_phase("draining", self._now_ns() + self.server.config.drain_timeout_ns)
        self.log.info(f"draining, at most {timeout_s:g} s; a second signal stops at once")
        self.shared.wake_everybody()
        restarters = [self._restarters.of(door) for door in self.workers.doors]
        finished = asyncio.wait(restarters, timeout=timeout_s + DRAIN_SLACK_S)
        await self._outcome.first(finished, self._outcome.hurry.wait())
        self._drained = all(restarter.done() and restarter.result() == OK for restarter in restarters)
        return self._outcome.failed or (OK if self._drained else NOT_DRAINED)

    async def _refuse_clients(self) -> None:
        """Refuses new connections before any client is sent away, because it could come back. Connected ones are
        accepted."""
        listeners = [self.listener, *([self.shared.http] if self.shared.http else [])]
        for listener in listeners:
            refuse_new(listener)
        await self._outcome.first(asyncio.sleep(ACCEPT_S), self._outcome.hurry.wait())
        for listener in listeners:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)

    async def _end(self) -> None:
        """Ends all processes, whatever happened before."""
        self._outcome.leaving.set()
        self._outcome.draining.set()
        self.reloads.cancel()
        self.segment.set_phase("stopping")
        self.shared.wake_everybody()
        for task in (*self._watchers, *self._restarters):
            task.cancel()
        restarts = [task for domain in dict.fromkeys(self._domains.values()) for task in domain.cancel()]
        hurry = self._outcome.hurry.is_set() or self._outcome.failed is not None
        grace_s = 0.0 if hurry else STOP_GRACE_S
        children = [(worker, worker.child) for worker in self.workers.all if worker.child is not None]
        stops = [
            child.stop(grace_s if isinstance(worker, DispatcherSlot) and self._may_finish(worker) else 0.0)
            for worker, child in children
            if not child.exited.done()
        ]
        if stops:
            await asyncio.wait([asyncio.create_task(stop) for stop in stops], timeout=REAP_MAX_S)
        if restarts:
            await asyncio.wait(restarts, timeout=REAP_MAX_S)
        if self._tracing:  # the front doors have ended, so their rings get no more records
            close = functools.partial(self._tracing.close, 0.0 if hurry else TRACING_GRACE_S)
            try:
                await in_background(close)
            except UnexpectedError as error:
                self.log.warning(f"tracing: the last spans are lost: {error}")
        for sharing in self.workers.sharings.values():
            await sharing.close()
        self._outcome.ignore_signals()
        left = [f"{worker.title} (pid {child.pid})" for worker, child in children if not child.exited.done()]
        self.log.info(f"stopped; not ended: {', '.join(left)}" if left else "stopped")

    def _may_finish(self, worker: DispatcherSlot) -> bool:
        """Whether a dispatcher may finish its step: not if it makes no progress, or if no request waits for the
        step."""
        return worker.ready and (self._drained or not worker.line.step_started_ns)
