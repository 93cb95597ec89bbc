"""The worker slot of dispatcher j. It serves successive generations of models, or is empty."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from fastqps._core import DispatcherState
from fastqps.config.edge import REMOTE, upstream_files, upstreams
from fastqps.devices import Device
from fastqps.process.children import DispatcherSettings, EdgeSettings
from fastqps.supervisor.child import Child, System, environment
from fastqps.supervisor.generation import Generation
from fastqps.supervisor.gpu.holder import Holder
from fastqps.supervisor.gpu.sharing import Sharing
from fastqps.supervisor.log import Log
from fastqps.supervisor.plan import Plan
from fastqps.supervisor.shared import Shared
from fastqps.supervisor.workers.worker_slot import RestartBudget, WorkerSlot

MISSES_MAX = 3
MISS_NS_MIN = 1_000_000_000  # the least patience: on a busy machine a process may wait for its core
SILENCE_MAX_NS = 300_000_000  # beyond this the heartbeat decides


class Canary:
    """The supervisor's record of one dispatcher's canaries, over all its incarnations."""

    def __init__(self, interval_ns: int) -> None:
        self.missed = 0
        self._interval_ns = interval_ns
        self._miss_ns = max(interval_ns, MISS_NS_MIN)
        self._steps_done = -1
        self._progress_ns = 0
        self._waited_ns = 0

    def age_s(self, now_ns: int) -> float | None:
        """Seconds since its start or its last finished step, of a client or a canary. None: canaries are off, and an
        idle dispatcher is not stuck."""
        return (now_ns - self._progress_ns) / 1e9 if self._interval_ns else None

    def overdue(self, now_ns: int, charge_ns: int, line: DispatcherState, silent_ns: int) -> str | None:
        """Returns why its process must be killed, or None. Call it once a tick, with the segment's present state.

        Time counts in which a canary waits, nothing is on the device (what takes too long there is --step-timeout's)
        and the heartbeat goes on (else the process has no core, or is stopped, which others see).
        """
        if line.steps_done != self._steps_done or not line.ready:
            self._steps_done, self._progress_ns, self._waited_ns = line.steps_done, now_ns, 0
            return None
        if not line.canary_since_ns or line.step_started_ns or not self._interval_ns:
            self._waited_ns = 0
            return None
        if silent_ns > SILENCE_MAX_NS:
            return None
        before = self._waited_ns
        self._waited_ns += charge_ns
        if self._waited_ns // self._miss_ns == before // self._miss_ns:
            return None
        self.missed += 1
        if self._waited_ns < MISSES_MAX * self._miss_ns:
            return None
        waited_s, self._waited_ns = self._waited_ns / 1e9, 0
        return f"takes no requests: a canary waits for {waited_s:.1f} s, and nothing is on its device"


TAKE_OFF_MAX_S = 3.0  # not awaited


class DispatcherSlot(WorkerSlot):
    """The worker slot of a dispatcher."""

    role = "dispatcher"
    epoch = 0
    sharing: Sharing | None = None  # of its GPU, if it has one
    generation: Generation | None = None  # what its process serves

    def __init__(self, index: int, server: Plan, shared: Shared, log: Log, system: System) -> None:
        super().__init__(index, server, shared, log, system)
        self.canary = Canary(server.config.canary_interval_ns)

    @property
    def title(self) -> str:
        return f"dispatcher {self.index} ({self.device.label})"

    @property
    def line(self) -> DispatcherState:
        return self.shared.segment.dispatcher(self.index)

    @property
    def busy_since_ns(self) -> int:
        return self.line.step_started_ns

    @property
    def empty(self) -> bool:
        return self.generation is None

    @property
    def route(self) -> int:
        """The route that it serves."""
        assert self.generation
        return self.generation.route

    @property
    def model(self) -> int:
        """The index of the model that it serves or will serve."""
        return self.server.model_of(self.index)

    @property
    def device(self) -> Device:
        """The device that it drives."""
        return self.server.devices[self.server.device_of(self.index)]

    def overdue(self, now: int, charge_ns: int, step_timeout_ns: int) -> str | None:
        reason = super().overdue(now, charge_ns, step_timeout_ns)
        if self.killed:
            return None
        return reason or self.canary.overdue(now, charge_ns, self.line, self.watched.silent_ns)

    def suspects_waiting(self) -> int:
        """Requests of its model that wait to run alone, because their dispatcher has died twice."""
        return self.shared.segment.suspects_waiting(self.route)

    async def remove(self, reason: str) -> None:
        """Takes its work off the GPU, so that others there are not affected, and then kills its process."""
        child = self.child
        if child is None or self.killed:
            return
        self.log.warning(f"removing {self.title} (pid {child.pid}): {reason}")
        if self.sharing:
            self.taken_off = True  # marked before the command, which may end it
            self.taken_off = await self.sharing.take_off([child.pid], TAKE_OFF_MAX_S)
        child.signal(signal.SIGKILL)

    def clear(self) -> None:
        """Empties the slot, after its process is reaped and settled."""
        self.generation = None
        self.retired = self.on_trial = self.taken_off = False
        self.given_up = self.last_line = ""
        self.budget = RestartBudget()
        self.shared.segment.vacate_dispatcher(self.index)

    def start(self, listener_fd: int, parent_pid: int) -> Child:
        self.epoch += 1
        return super().start(listener_fd, parent_pid)

    def announce(self, pid: int) -> None:
        device = self.server.device_of(self.index)
        self.shared.segment.start_dispatcher(self.index, self.epoch, self.route, pid, device)

    def settle(self) -> None:
        self.shared.segment.publish_death(self.shared.wake_fds, self.index, self.epoch)

    def settings(self, listener_fd: int, parent_pid: int) -> DispatcherSettings | EdgeSettings:
        config, holder = self.server.config, self._holder()
        assert self.generation  # not empty
        room = self.generation.room
        cpus = () if self.on_trial else self._cpus()
        common = self.shared.settings(self.index, self.title, parent_pid, cpus)
        common |= {"epoch": self.epoch, "route": self.route}
        if config.device == REMOTE:
            return EdgeSettings(
                **common,
                upstreams=upstreams(config),
                credentials=upstream_files(config),
                max_batch_items=room.items,
                lanes=room.lanes,
                on_trial=self.on_trial,
            )
        return DispatcherSettings(
            **common,
            device=self.device.spec_alone,
            device_index=self.server.device_of(self.index),
            device_make=self.device.make,
            dtype=config.dtype,
            quantization=config.quantization,
            weights_fd=holder.fd if holder else -1,
            table_fd=self.shared.tables.get(self.route, -1),
            kernels=config.kernels,
            kernels_fd=self.shared.kernels.fd,
            threads=self.server.threads,
            max_batch_items=room.items,
            choose_items=room.choose,
            max_batch_tokens=room.tokens,
            max_step_time_ns=config.max_step_time_ns,
            lanes=room.lanes,
            async_steps=config.async_steps,
        )

    def fds(self, listener_fd: int) -> tuple[int, ...]:
        holder = self._holder()
        own = (holder.fd if holder else -1, self.shared.tables.get(self.route, -1))
        return (*super().fds(listener_fd), self.shared.kernels.fd, *(fd for fd in own if fd >= 0))

    def environment(self) -> dict[str, str]:
        own = self.sharing.environment() if self.sharing else {}
        return environment(self.server.threads) | own

    def pin(self) -> None:
        """Pins it to its CPUs, once its predecessor on them has ended. Until then it ran unpinned."""
        if self.child is None or not self._cpus():
            return
        with contextlib.suppress(OSError):  # it has just died; the next one starts pinned
            for task in Path(f"/proc/{self.child.pid}/task").iterdir():
                os.sched_setaffinity(int(task.name), self._cpus())

    def _cpus(self) -> tuple[int, ...]:
        return self.server.dispatcher_cpus[self.index % self.server.dispatchers]

    def _holder(self) -> Holder | None:
        """The holder of its weights, if they are shared."""
        return self.sharing.holder_of(self.route) if self.sharing else None
