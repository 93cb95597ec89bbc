"""One place in the server that a process fills: front door i or dispatcher j, over all its incarnations."""

from __future__ import annotations

import contextlib
import os
import signal
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from fastqps._core import now_ns
from fastqps.children import CHILD_MODULES, DispatcherSettings, DoorSettings, Settings, write_settings
from fastqps.devices import Device
from fastqps.supervisor.canary import Canary
from fastqps.supervisor.child import Child, command, environment
from fastqps.supervisor.generation import Generation
from fastqps.supervisor.holder import Holder
from fastqps.supervisor.log import Log
from fastqps.supervisor.plan import Plan
from fastqps.supervisor.restarts import RestartBudget
from fastqps.supervisor.shared import Shared
from fastqps.supervisor.sharing import Sharing
from fastqps.supervisor.watch import Watched, is_stopped


class Seat(ABC):
    """Starts its process, tells the segment, and after each death settles what the dead left behind."""

    role: str
    step: str  # where its line says when it began what it does now; 0: nothing
    on_trial = False  # it has to show first that it can serve: if it cannot, the server goes on without
    retired = False  # what it has left to do is its last

    def __init__(self, index: int, server: Plan, shared: Shared, log: Log, module: str | None = None) -> None:
        self.index = index
        self.server = server
        self.shared = shared
        self.log = log
        self.module = module or CHILD_MODULES[self.role]
        self.budget = RestartBudget()
        self.child: Child | None = None
        self.watched = Watched(0)
        self.last_line = ""
        self.given_up = ""  # why it stays down
        self.restarts = 0

    @property
    @abstractmethod
    def title(self) -> str:
        """As in the log and in the process's title."""

    @property
    @abstractmethod
    def line(self) -> dict[str, Any]:
        """What the segment says about the process now."""

    @property
    def vacant(self) -> bool:
        """There shall be no process in it."""
        return False

    @property
    def phase(self) -> str:
        """The server's."""
        return str(self.shared.segment.phase)

    @property
    def ready(self) -> bool:
        """It runs and serves."""
        return self.child is not None and bool(self.line["ready"])

    def start(self, listener_fd: int, parent_pid: int) -> Child:
        """Starts the next incarnation. ``OSError`` where the system refuses a process."""
        self.announce(0)
        settings = self.settings(listener_fd, parent_pid)
        child = Child(
            command(self.module, write_settings(settings)),
            self.fds(listener_fd),
            self.environment(),
            self._on_line,
        )
        self.announce(child.pid)
        self.watched = Watched(now_ns())
        self.child = child
        return child

    def kill(self, reason: str) -> None:
        """SIGKILL, with the reason in the log; it is settled when it has been reaped."""
        if self.child is not None:
            self.log.event("supervisor", f"killing {self.title} (pid {self.child.pid}): {reason}")
            self.child.signal(signal.SIGKILL)

    def overdue(self, now: int, charge_ns: int, step_timeout_ns: int) -> str | None:
        """Why its process must be killed, or None."""
        if self.child is None or self.child.exited.done():
            return None
        line, pid = self.line, self.child.pid
        return self.watched.overdue(
            now,
            charge_ns,
            heartbeat_ns=line["heartbeat_ns"],
            ready=line["ready"],
            step_started_ns=line[self.step],
            step_timeout_ns=step_timeout_ns,
            is_stopped=lambda: is_stopped(pid),
        )

    @abstractmethod
    def announce(self, pid: int) -> None:
        """Tells the segment about the incarnation that starts. Pid 0: it is not there yet."""

    @abstractmethod
    def settle(self) -> None:
        """Tells the segment that the process is dead. Only after it has been reaped: no late store can come."""

    @abstractmethod
    def settings(self, listener_fd: int, parent_pid: int) -> Settings:
        """What the next incarnation is told."""

    def fds(self, listener_fd: int) -> tuple[int, ...]:
        """The descriptors that it inherits."""
        del listener_fd
        return self.shared.inherited

    def environment(self) -> dict[str, str]:
        """Its own."""
        return environment()

    def _common(self, parent_pid: int, cpus: tuple[int, ...]) -> dict[str, Any]:
        return {
            "index": self.index,
            "title": self.title,
            "parent_pid": parent_pid,
            "parent_fd": self.shared.parent_fd,
            "segment_fd": self.shared.segment_fd,
            "wake_dispatchers": self.shared.wake_dispatchers,
            "wake_doors": self.shared.wake_doors,
            "cpus": cpus,
        }

    def _on_line(self, line: str) -> None:
        if line.strip():
            self.last_line = line.strip()
        self.log.event(self.title, line)


class DoorSeat(Seat):
    """A front door's."""

    role = "frontdoor"
    step = "turn_started_ns"

    @property
    def title(self) -> str:
        return f"frontdoor {self.index}"

    @property
    def line(self) -> dict[str, Any]:
        return self.shared.segment.door(self.index)

    def announce(self, pid: int) -> None:
        self.shared.segment.start_door(self.index, pid)

    def settle(self) -> None:
        self.shared.segment.reap_door(self.index)

    def settings(self, listener_fd: int, parent_pid: int) -> DoorSettings:
        config = self.server.config
        return DoorSettings(
            **self._common(parent_pid, self.server.door_cpus[self.index]),
            listener_fd=listener_fd,
            internal_fd=self.shared.internal.fileno(),
            credentials_fd=self.shared.credentials_fd,
            max_message_bytes=config.max_message_bytes,
            max_stream_inflight=config.max_stream_inflight,
            default_timeout_ns=config.default_timeout_ns,
            max_connection_age_ns=config.max_connection_age_ns,
            canary_interval_ns=config.canary_interval_ns,
            rerun=config.rerun,
            load_reports=config.load_reports,
            trace_ratio=config.trace_ratio if config.otlp_endpoint else None,
        )

    def fds(self, listener_fd: int) -> tuple[int, ...]:
        return (*self.shared.inherited, listener_fd, self.shared.internal.fileno(), self.shared.credentials_fd)


class DispatcherSeat(Seat):
    """A dispatcher's."""

    role = "dispatcher"
    step = "step_started_ns"
    epoch = 0
    sharing: Sharing | None = None  # of its GPU, where it runs on one
    generation: Generation | None = None  # what its process serves

    def __init__(self, index: int, server: Plan, shared: Shared, log: Log, module: str | None = None) -> None:
        super().__init__(index, server, shared, log, module)
        self.canary = Canary(server.config.canary_interval_ns)

    @property
    def title(self) -> str:
        return f"dispatcher {self.index} ({self.device.label})"

    @property
    def line(self) -> dict[str, Any]:
        return self.shared.segment.dispatcher(self.index)

    @property
    def vacant(self) -> bool:
        return self.generation is None

    @property
    def route(self) -> int:
        """On which it serves."""
        assert self.generation
        return self.generation.route

    @property
    def model(self) -> int:
        """The index of the model that it serves, now or later."""
        return self.server.model_of(self.index)

    @property
    def device(self) -> Device:
        """The device that it drives."""
        return self.server.devices[self.server.device_of(self.index)]

    def overdue(self, now: int, charge_ns: int, step_timeout_ns: int) -> str | None:
        reason = super().overdue(now, charge_ns, step_timeout_ns)
        return reason or self.canary.overdue(now, charge_ns, self.line, self.watched.silent_ns)

    def suspects_waiting(self) -> int:
        """Requests of its model that wait to run alone, because their dispatcher has died twice."""
        return self.shared.segment.suspects_waiting(self.route)

    def vacate(self) -> None:
        """Its generation needs it no more, and its process is reaped and settled."""
        self.generation = None
        self.retired = self.on_trial = False
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

    def settings(self, listener_fd: int, parent_pid: int) -> DispatcherSettings:
        config, holder = self.server.config, self._holder()
        assert config.lanes and self.generation  # decided; not vacant
        room = self.generation.room
        return DispatcherSettings(
            **self._common(parent_pid, () if self.on_trial else self._cpus()),
            epoch=self.epoch,
            route=self.route,
            device=self.device.spec_alone,
            device_index=self.server.device_of(self.index),
            dtype=config.dtype,
            quantization=config.quantization,
            weights_fd=holder.fd if holder else -1,
            threads=self.server.threads,
            max_batch_items=room.items,
            max_batch_tokens=room.tokens,
            max_running=room.running,
            lanes=config.lanes,
            async_steps=config.async_steps,
            preparation=config.preparation,
        )

    def fds(self, listener_fd: int) -> tuple[int, ...]:
        holder = self._holder()
        return (*super().fds(listener_fd), *([holder.fd] if holder else []))

    def environment(self) -> dict[str, str]:
        own = self.sharing.environment() if self.sharing else {}
        return environment(self.server.threads) | own

    def pin(self) -> None:
        """To its CPUs, which its predecessor had until now: while that served, it ran wherever there was room."""
        if self.child is None or not self._cpus():
            return
        with contextlib.suppress(OSError):  # it has just died; the next one starts there
            for task in Path(f"/proc/{self.child.pid}/task").iterdir():
                os.sched_setaffinity(int(task.name), self._cpus())

    def _cpus(self) -> tuple[int, ...]:
        return self.server.dispatcher_cpus[self.index % self.server.dispatchers]

    def _holder(self) -> Holder | None:
        """Of its weights, where they are shared."""
        return self.sharing.holder_of(self.route) if self.sharing else None
