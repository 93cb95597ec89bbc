"""In which order the dispatchers of a GPU start, end after a fault, and give back what they held. None is a process."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Collection
from typing import Any, cast

import pytest
from process_table import WAIT_MAX_S, FakeLog, in_fake_time

from fastqps.errors import DEVICE_FAULT
from fastqps.process.children import LEAVE
from fastqps.supervisor.gpu.sharing import Sharing
from fastqps.supervisor.log import Log
from fastqps.supervisor.outcome import Outcome
from fastqps.supervisor.workers import failure_domain as domains
from fastqps.supervisor.workers.dispatcher_slot import DispatcherSlot
from fastqps.supervisor.workers.failure_domain import Domain
from fastqps.supervisor.workers.restarter import Restarter, Restarters
from fastqps.supervisor.workers.worker_slot import RestartBudget

Events = list[str]


class FakeChild:
    """Ends when it is told to: politely, unless ``deaf``, or by SIGKILL, unless ``stuck``."""

    def __init__(self, worker: FakeWorker) -> None:
        self.pid = 100 + worker.index
        self.killed = False
        self.exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._worker = worker

    def signal(self, number: signal.Signals) -> None:
        self._worker.events.append(f"{signal.Signals(number).name} {self._worker.index}")
        self.killed = self.killed or number == signal.SIGKILL
        if number == LEAVE and "deaf" not in self._worker.faults:
            self.end(0)
        if number == signal.SIGKILL and "stuck" not in self._worker.faults:
            self.end(-9)

    def end(self, code: int) -> None:
        if not self.exited.done():
            self.exited.set_result(code)


class FakeWorker(DispatcherSlot):
    """A worker slot of ``model``; its process is ready when the test says so."""

    def __init__(self, index: int, model: int, events: Events, log: Log) -> None:
        self.index, self.events, self.log = index, events, log
        self.child, self.given_up, self.last_line, self.restarts = None, "", "an illegal access", 0
        self.budget = RestartBudget()
        self.faults: set[str] = set()
        self.serves, self.suspects = False, 0
        self._model = model

    title = property(lambda self: f"dispatcher {self.index}")  # type: ignore[assignment]
    model = property(lambda self: self._model)  # type: ignore[assignment]
    route = property(lambda self: self._model)  # type: ignore[assignment]
    empty = property(lambda self: False)  # type: ignore[assignment]
    phase = property(lambda self: "serving")  # type: ignore[assignment]
    ready = property(lambda self: self.child is not None and self.serves)  # type: ignore[assignment]

    def suspects_waiting(self) -> int:
        return self.suspects

    def start(self, listener_fd: int, parent_pid: int) -> Any:
        self.events.append(f"start {self.index}")
        self.serves = False
        self.child = cast(Any, FakeChild(self))
        return self.child

    def settle(self) -> None:
        self.events.append(f"settle {self.index}")

    def clear(self) -> None:
        self.given_up, self.retired = "", False


class FakeSharing:
    """An MPS daemon that does as it is told."""

    label, lost, together, one_context = "cuda:0", None, True, True

    def __init__(self, events: Events) -> None:
        self._events = events
        self.obeys = True

    async def check(self, pids: Collection[int]) -> None:
        self._events.append("check")

    async def take_off(self, pids: Collection[int], timeout_s: float) -> bool:
        self._events.append(f"take off {sorted(pids)}")
        return self.obeys

    async def reopen(self) -> None:
        self._events.append("reopen")

    async def close(self) -> None:
        self._events.append("close")


class Gpu:
    """Dispatchers of these models on one GPU, with their restarters."""

    def __init__(self, *models: int) -> None:
        self.events: Events = []
        self.log = FakeLog()
        outcome = Outcome(self.log)
        self.workers = [FakeWorker(i, model, self.events, self.log) for i, model in enumerate(models)]
        self.sharing = FakeSharing(self.events)
        for worker in self.workers:
            worker.sharing = cast(Sharing, self.sharing)
        self.domain = Domain(self.workers, outcome, self.log, cast(Sharing, self.sharing))
        self._outcome = outcome
        self._tasks = [asyncio.create_task(self.domain.watch())]
        for worker in self.workers:
            self.keep(worker.index)

    def keep(self, index: int) -> None:
        """From now on there is a process in that worker slot."""
        restarter = Restarter(self.workers[index], self.domain, -1, self._outcome, self.log, lambda: None)
        self._tasks.append(asyncio.create_task(restarter.run()))

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(WAIT_MAX_S):
            while not condition():
                await asyncio.sleep(0.005)

    async def started(self, *indices: int) -> None:
        """Exactly these run, and stay those that do."""
        await self.until(lambda: {s.index for s in self.workers if s.child} == set(indices))
        await asyncio.sleep(0.1)
        assert {worker.index for worker in self.workers if worker.child} == set(indices)

    async def all_serve(self) -> None:
        def all_ready() -> bool:
            for worker in self.workers:
                worker.serves = True
            return self.domain.checked and all(worker.ready for worker in self.workers)

        await self.until(all_ready)

    async def serving(self) -> None:
        """All serve, and nothing has happened since."""
        await self.started(0)
        await self.all_serve()
        self.events.clear()

    def end(self) -> None:
        self.domain.cancel()
        for task in self._tasks:
            task.cancel()


def on_gpu(*models: int) -> Callable[[Callable[[Gpu], Awaitable[None]]], Callable[[], None]]:
    """The test runs on a GPU with these dispatchers."""

    def decorate(test: Callable[[Gpu], Awaitable[None]]) -> Callable[[], None]:
        async def run() -> None:
            gpu = Gpu(*models)
            try:
                await test(gpu)
            finally:
                gpu.end()

        run.__name__, run.__doc__ = test.__name__, test.__doc__
        return in_fake_time(run)

    return decorate


@on_gpu(0, 0, 1, 0)
async def test_one_of_each_model_first(gpu: Gpu) -> None:
    await gpu.started(0, 2)
    gpu.workers[0].serves = True
    await gpu.started(0, 2)
    gpu.workers[2].suspects = 3
    gpu.workers[2].serves = True
    await gpu.started(0, 2)
    gpu.workers[2].suspects = 0
    await gpu.started(0, 1, 2, 3)
    assert "check" not in gpu.events
    await gpu.all_serve()
    assert gpu.events.count("check") == 1


@on_gpu(0, 0, 0)
async def test_what_the_dead_held_is_put_back_when_all_are_dead(gpu: Gpu) -> None:
    await gpu.serving()
    gpu.workers[1].child.end(DEVICE_FAULT)
    await gpu.until(lambda: "start 0" in gpu.events)
    await gpu.started(0)
    names = ["SIGUSR1 0", "SIGUSR1 2"]
    assert gpu.events[:2] == names and sorted(gpu.events[2:5]) == ["settle 0", "settle 1", "settle 2"]
    assert gpu.events[5:] == ["reopen", "start 0"]
    assert [worker.restarts for worker in gpu.workers] == [1, 1, 1]
    await gpu.all_serve()
    assert gpu.events.count("check") == 1


@on_gpu(0, 0)
async def test_a_deaf_one_is_taken_off_the_gpu_and_killed(gpu: Gpu) -> None:
    await gpu.serving()
    gpu.workers[0].faults = {"deaf"}
    gpu.workers[1].child.end(-9)
    await gpu.until(lambda: "start 0" in gpu.events)
    assert gpu.events[:3] == ["SIGUSR1 0", "take off [100]", "SIGKILL 0"]
    assert sorted(gpu.events[3:5]) == ["settle 0", "settle 1"] and gpu.events[5:] == ["reopen", "start 0"]


@on_gpu(0, 0)
async def test_one_that_cannot_be_ended_leaves_it_down(gpu: Gpu) -> None:
    await gpu.serving()
    gpu.workers[0].faults = {"deaf", "stuck"}
    gpu.workers[1].child.end(-9)
    await gpu.until(lambda: gpu.workers[1].given_up)
    assert gpu.domain.down == "dispatcher 0 cannot be ended: the driver holds it"
    await gpu.until(lambda: "close" in gpu.events)
    assert "settle 1" in gpu.events and "settle 0" not in gpu.events and "reopen" not in gpu.events
    gpu.workers[0].child.end(-9)  # the driver lets go of it
    await gpu.until(lambda: gpu.workers[0].given_up)
    assert "settle 0" in gpu.events and not {"start 0", "reopen"} & set(gpu.events)


@on_gpu(0, 0)
async def test_an_error_of_python_is_nobody_elses(gpu: Gpu) -> None:
    await gpu.serving()
    gpu.workers[1].child.end(1)
    await gpu.until(lambda: "start 1" in gpu.events)
    assert gpu.events == ["settle 1", "start 1"]
    assert [worker.restarts for worker in gpu.workers] == [0, 1]


@on_gpu(0, 0)
async def test_one_on_trial_that_is_killed_ends_nobody_who_serves(gpu: Gpu) -> None:
    await gpu.serving()
    gpu.workers[1].on_trial = True
    gpu.workers[1].child.end(-11)
    await gpu.until(lambda: "start 1" in gpu.events)
    assert gpu.events == ["settle 1", "start 1"] and gpu.workers[0].restarts == 0


@on_gpu(0, 0)
async def test_one_on_trial_that_faults_is_not_tried_again(gpu: Gpu) -> None:
    """The GPU reports its fault to all, who start again: once."""
    await gpu.serving()
    gpu.workers[1].on_trial = True
    gpu.workers[1].child.end(DEVICE_FAULT)
    await gpu.until(lambda: "start 0" in gpu.events)
    await gpu.started(0)
    assert sorted(gpu.events[1:3]) == ["settle 0", "settle 1"] and gpu.events[3:] == ["reopen", "start 0"]
    assert gpu.workers[1].given_up == "an illegal access"


@on_gpu(0, 0)
async def test_without_mps_a_fault_on_trial_is_its_own(gpu: Gpu) -> None:
    """The weights of the generation on trial have a holder of their own."""
    gpu.sharing.one_context = False
    await gpu.serving()
    gpu.workers[1].on_trial = True
    gpu.workers[1].child.end(DEVICE_FAULT)
    await gpu.until(lambda: gpu.workers[1].given_up)
    assert gpu.events == ["settle 1"]


@on_gpu(0, 0)
async def test_one_that_a_reload_removes_is_taken_off_the_gpu_first(gpu: Gpu) -> None:
    await gpu.started(0)
    await gpu.all_serve()
    for obeys in (True, False):
        gpu.events.clear()
        gpu.workers[1].retired, gpu.sharing.obeys = True, obeys
        await gpu.workers[1].remove("it did not leave by itself")
        await gpu.until(lambda: "settle 1" in gpu.events)
        assert gpu.events[:2] == ["take off [101]", "SIGKILL 1"]
        if obeys:
            assert gpu.events[2:] == ["settle 1"]
            gpu.workers[1].retired = gpu.workers[1].taken_off = False
            gpu.keep(1)
            await gpu.all_serve()
    await gpu.until(lambda: "start 0" in gpu.events)  # who was at work may have hurt the other


@in_fake_time
async def test_the_service_of_a_gpu_goes_on_with_the_next_version() -> None:
    """Whose worker slots are others, and new: without their time all of its faults would fall into one minute."""
    log = FakeLog()
    old, new = (FakeWorker(i, 0, [], log) for i in range(2))
    domain = Domain([old, new], Outcome(log), log)
    old.served_s = 1e6
    assert domain._serve_until_now() == 1e6
    new.served_s = 100
    assert domain._serve_until_now() == 1e6 + 100
    old.served_s, new.served_s = 1e6 + 5, 107
    assert domain._serve_until_now() == 1e6 + 107


@in_fake_time
async def test_a_vacated_worker_of_its_own_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU's faults under one version do not keep the worker slot from the version after next."""
    monkeypatch.setattr(domains, "FAULTS_MAX", 1)
    log = FakeLog()
    outcome = Outcome(log)
    worker = FakeWorker(0, 0, [], log)
    restarters, domain = Restarters(-1, outcome, log, lambda: None), Domain([worker], outcome, log)
    async with asyncio.timeout(WAIT_MAX_S):
        for _ in range(2):
            restarters.fill(worker, domain)
            for starts in (1, 2):
                while worker.events.count("start 0") < starts:
                    await asyncio.sleep(0.005)
                worker.child.end(DEVICE_FAULT)
            await restarters.of(worker)
            assert worker.given_up.startswith("2 faults within 60 s of service")
            assert await restarters.empty([worker], 0.1) == ""
            worker.events.clear()


@on_gpu(0, 0)
async def test_the_second_leads_when_the_first_is_given_up(gpu: Gpu) -> None:
    await gpu.started(0)
    gpu.workers[0].given_up = "died too often"
    gpu.workers[0].child.end(0)
    gpu.workers[0].child = None
    await gpu.until(lambda: "start 1" in gpu.events)


@on_gpu(0, 0)
async def test_suspects_hold_the_others_up_only_so_long(gpu: Gpu) -> None:
    gpu.workers[0].suspects = 7
    await gpu.started(0)
    gpu.workers[0].serves = True
    await gpu.started(0)
    await gpu.until(lambda: "start 1" in gpu.events)
