"""Replaces a model's generation by the next: warms it up beside the serving one, flips the route, drains the old one.

No request fails for it. Until the front doors and the new dispatchers are all ready the old generation serves, and
any failure leaves it so. Then the model's route flips: requests that are accepted from then on wait for the new
dispatchers. Earlier requests are answered by the old ones, which end when no front door holds any of their requests.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence

from fastqps.errors import FastqpsError
from fastqps.models import ModelCard
from fastqps.models.names import explicit
from fastqps.process.background import in_background
from fastqps.process.children import LOAD_ROUTES
from fastqps.process.served_models import OutcomeName, Reloaded
from fastqps.supervisor.generation import Generation
from fastqps.supervisor.gpu.holder import Holder
from fastqps.supervisor.log import SUPERVISOR, Log
from fastqps.supervisor.plan import Plan, named_models
from fastqps.supervisor.reload.next_model import NextModel, check_memory, next_model
from fastqps.supervisor.shared import Shared
from fastqps.supervisor.workers.dispatcher_slot import DispatcherSlot
from fastqps.supervisor.workers.failure_domain import Domain
from fastqps.supervisor.workers.frontdoor_slot import FrontDoorSlot
from fastqps.supervisor.workers.restarter import Restarters
from fastqps.supervisor.workers.worker_slot import WorkerSlot
from fastqps.supervisor.workers.workers import Workers
from fastqps.terminal import Level

READY_MAX_S = 600.0
POLL_S = 0.02
LEAVE_MAX_S = 10.0  # for dispatchers that have at most one step to finish
TRIAL_LEAVE_MAX_S = 5.0  # a long library call may delay them; they hold no requests
CLEAN_MAX_S = 5.0  # after the old dispatchers' end: the front doors' tick answers the requests that waited for them


class _Failed(FastqpsError):
    """The reload failed, and the old generation continues to serve."""


class Reloader:
    """Reloads models, one at a time."""

    def __init__(
        self,
        server: Plan,
        shared: Shared,
        workers: Workers,
        restarters: Restarters,
        log: Log,
    ) -> None:
        self.counts: Counter[tuple[str, OutcomeName]] = Counter()
        self.outcomes: dict[str, OutcomeName] = {}  # of the last reload of each model
        self.running = ""  # the present step; "" while there is no reload
        self._server = server
        self._shared = shared
        self._doors = workers.doors
        self._workers = workers
        self._restarters = restarters
        self._sharings = workers.sharings
        self._log = log
        self._paths = [path for _, path in named_models(server.config)]
        self._numbers = [0] * len(self._paths)  # the newest generation of each model, also of those that failed
        # By model: the arguments of a ``_remove`` that has not succeeded yet.
        self._leaving: dict[int, tuple[Generation, int]] = {}

    async def reload(self, model: int, path: str, domains: Mapping[WorkerSlot, Domain]) -> Reloaded:
        """Reloads a model from ``path``; "" means from where it was read last. Never call it twice at a time."""
        assert not self.running
        began_s, now, path = time.monotonic(), self._workers.serving[model], explicit(path)
        name = now.card.name
        self.running = f"reading {name}"
        self._log.info(f"reloading {name}" + (f" from {path}" if path else ""))
        try:
            outcome, reason = await self._reload(now, path or self._paths[model], domains)
            self._paths[model] = path or self._paths[model]
        except FastqpsError as error:
            outcome, reason = "failed", str(error)
        finally:
            self.running = ""
        self.counts[name, outcome] += 1
        self.outcomes[name] = outcome
        serves = self._workers.serving[model]
        took_s = time.monotonic() - began_s
        level = Level.WARNING if outcome == "failed" else Level.INFO
        self._log.event(SUPERVISOR, _said(outcome, serves.name, now.name, reason, took_s), level)
        return Reloaded(name, outcome, serves.card.version, now.card.version, reason, took_s)

    async def _reload(
        self, now: Generation, path: str, domains: Mapping[WorkerSlot, Domain]
    ) -> tuple[OutcomeName, str]:
        if now.model in self._leaving and (problem := await self._remove(*self._leaving[now.model], 0.0)):
            raise _Failed(problem)
        found = await in_background(lambda: next_model(self._server, now.card, path))
        if _same(found.card, now.card):
            return "unchanged", ""
        if not self._server.reloads:
            raise _Failed(f"{self._server.dispatchers} dispatchers leave no worker slots free")
        check_memory(worker.child.pid for worker in self._workers.of(now) if worker.child)
        generation = self._next(now, found)
        self._shared.announce(generation, like=now if found.shape == now.shape else None)
        self.running = f"warming up {generation.name}"
        try:
            await self._warm_up(generation, domains)
        except _Failed:
            await self._remove(generation, 0, TRIAL_LEAVE_MAX_S)
            raise
        flips = self._workers.flip(generation)
        self._workers.set_routes()
        self._shared.wake_everybody()
        self._log.info(f"{generation.name} serves; {now.name} finishes what it has")
        self.running = f"draining {now.name}"
        await self._let_go(now, flips)
        for worker in self._workers.of(generation):
            worker.pin()
        for warning in found.card.warnings:
            self._log.warning(f"{generation.name}: {warning}")
        return "reloaded", found.note

    def _next(self, now: Generation, found: NextModel) -> Generation:
        """The next generation: on the other route, with a new number, so that it is never taken for an abandoned
        one."""
        number = self._numbers[now.model] + 1
        number += (number - now.number) % 2 == 0
        self._numbers[now.model] = number
        return Generation(now.model, number, found.card, found.room, found.shape)

    # ---- before the flip

    async def _warm_up(self, generation: Generation, domains: Mapping[WorkerSlot, Domain]) -> None:
        """Returns once all processes can serve the generation. Raises ``_Failed`` once one never will."""
        workers = self._workers.take(generation)
        for worker in workers:
            worker.on_trial = True
        self._workers.set_routes()
        self._have_doors_look()
        if self._server.config.share_weights:
            self._start_holders(generation)
        for worker in workers:
            self._restarters.fill(worker, domains[worker])
        give_up_s = time.monotonic() + READY_MAX_S
        while not self._all_ready(generation, workers):
            self._check(generation, workers)
            if time.monotonic() > give_up_s:
                raise _Failed(f"not ready within {READY_MAX_S:g} s")
            await asyncio.sleep(POLL_S)
        for worker in workers:
            worker.on_trial = False
        for sharing in self._sharings.values():
            sharing.keep_holder(generation.route)

    def _start_holders(self, generation: Generation) -> None:
        for number, (device, sharing) in enumerate(self._sharings.items()):
            try:
                sharing.try_holder(Holder(number, generation, device, self._server, self._shared, self._log))
            except OSError as error:
                raise _Failed(f"cannot start what holds its weights: {error}") from None

    def _all_ready(self, generation: Generation, workers: Sequence[DispatcherSlot]) -> bool:
        """Whether all processes can serve the generation. A front door that starts now loads it before it serves."""
        live = [door for door in self._doors if door.line.live]
        loaded = all(self._door_route(door, generation.route)[0] == generation.number for door in live)
        return loaded and all(worker.ready for worker in workers)

    def _check(self, generation: Generation, workers: Sequence[DispatcherSlot]) -> None:
        for sharing in self._sharings.values():
            for holder in sharing.holders_on_trial:
                if holder.exit_code is not None:
                    raise _Failed(holder.reason)
        for worker in workers:
            if worker.given_up:
                raise _Failed(f"{worker.title} cannot serve it: {worker.last_line or worker.given_up}")
        for door in self._doors:
            if self._door_route(door, generation.route)[1] == generation.number:
                if door.child:
                    door.child.read()  # it has logged the reason
                raise _Failed(f"{door.title} cannot use it: {door.last_line}")

    # ---- after the flip

    async def _let_go(self, old: Generation, flips: int) -> None:
        """Ends the old dispatchers once no front door holds their requests, or --drain-timeout has passed."""
        limit_s = self._server.config.drain_timeout_ns / 1e9
        if not await self._until_clean(old.route, flips, limit_s):
            self._log.warning(f"{old.name}: {self._held(old.route)} items are not finished after {limit_s:g} s")
        if problem := await self._remove(old, flips, LEAVE_MAX_S):
            self._log.warning(f"{old.card.name} cannot be reloaded again as long as {problem}")

    async def _remove(self, gone: Generation, flips: int, leave_max_s: float) -> str:
        """Ends the dispatchers of a generation that does not serve, and makes the front doors drop it. ``flips``: what
        they have seen when they accept nothing for it any more.

        "", or why its workers and its route cannot be used again: the next reload, which needs them, tries again.
        """
        self._leaving[gone.model] = gone, flips
        problem = await self._restarters.empty(self._workers.of(gone), leave_max_s)
        self._workers.set_routes()
        for sharing in self._sharings.values():
            await sharing.drop_holder(gone.route)
        if not problem and not await self._until_clean(gone.route, flips, CLEAN_MAX_S):
            which = ", ".join(door.title for door in self._unclean(gone.route, flips))
            problem = f"{which} may still use {gone.name} ({self._held(gone.route)} items)"
        if not problem:
            del self._leaving[gone.model]
            self._shared.forget(gone)
            self._have_doors_look()
        return problem

    def _have_doors_look(self) -> None:
        for door in self._doors:
            if door.child:
                door.child.signal(LOAD_ROUTES)

    async def _until_clean(self, route: int, flips: int, timeout_s: float) -> bool:
        give_up_s = time.monotonic() + timeout_s
        while self._unclean(route, flips):
            if time.monotonic() > give_up_s:
                return False
            await asyncio.sleep(POLL_S)
        return True

    def _unclean(self, route: int, flips: int) -> list[FrontDoorSlot]:
        """The front doors that have something of a route, or may accept more for it. Not one that is down, nor one that
        is starting: what it accepts later is for what serves then."""
        lines = [(door, door.line) for door in self._doors]
        serving = [(door, line) for door, line in lines if line.live and line.ready]
        return [door for door, line in serving if line.flips_seen < flips or self._door_route(door, route)[2]]

    def _held(self, route: int) -> int:
        return sum(self._door_route(door, route)[2] for door in self._doors)

    def _door_route(self, door: FrontDoorSlot, route: int) -> tuple[int, int, int]:
        return self._shared.segment.door_route(door.index, route)


def _same(new: ModelCard, old: ModelCard) -> bool:
    return (new.version, new.path, new.adapter) == (old.version, old.path, old.adapter)


def _said(outcome: OutcomeName, now: str, before: str, reason: str, took_s: float) -> str:
    if outcome == "failed":
        return f"not reloaded, {now} goes on serving: {reason}"
    if outcome == "unchanged":
        return f"{now} is unchanged: nothing to reload"
    return f"reloaded: {now} instead of {before} ({took_s:.1f} s)" + (f"; {reason}" if reason else "")
