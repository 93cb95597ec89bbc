"""A worker slot: one place in the server for a process, over all its incarnations."""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections import deque

from fastqps._core import DispatcherState, DoorState
from fastqps.process.children import Settings, write_settings
from fastqps.supervisor.child import Child, System, command, environment
from fastqps.supervisor.log import Log
from fastqps.supervisor.plan import Plan
from fastqps.supervisor.shared import Shared
from fastqps.supervisor.workers.progress import Watched
from fastqps.terminal import leveled

REAP_MAX_S = 30.0  # after a SIGKILL; after that its end is no longer awaited
# How soon and how often a dead process is restarted.
RESTARTS_MAX = 5
WINDOW_S = 60.0
DELAY_FIRST_S = 0.25
DELAY_MAX_S = 5.0


class RestartBudget:
    """Allows at most ``most`` restarts in any WINDOW_S of service: the first at once, later ones with growing delays.

    Only time with service counts. Otherwise a process that dies after minutes of starting would never have two deaths
    in one window, and would be restarted for ever.
    """

    def __init__(self, most: int = RESTARTS_MAX) -> None:
        self._most = most
        self._deaths: deque[float] = deque(maxlen=most + 1)

    def next_delay_s(self, served_s: float) -> float | None:
        """Returns the seconds to wait before the restart after a death; None if the process stays down. ``served_s``:
        total time with service so far."""
        while self._deaths and served_s - self._deaths[0] >= WINDOW_S:
            self._deaths.popleft()
        self._deaths.append(served_s)
        recent = len(self._deaths)
        if recent > self._most:
            return None
        return 0.0 if recent == 1 else float(min(DELAY_FIRST_S * 2 ** (recent - 2), DELAY_MAX_S))


class WorkerSlot(ABC):
    """Starts its process, records it in the segment, and settles the segment after each death."""

    role: str
    on_trial = False  # it has not served yet: if it cannot, the server continues without it
    retired = False  # it finishes its work and is not restarted
    served_s = 0.0  # total time in which its processes were ready
    taken_off = False  # off the GPU: the end of its process affects no other

    def __init__(self, index: int, server: Plan, shared: Shared, log: Log, system: System) -> None:
        self.index = index
        self.server = server
        self.shared = shared
        self.log = log
        self._system = system
        self.budget = RestartBudget()
        self.child: Child | None = None
        self.watched = Watched(0)
        self._looked_ns = 0
        self.last_line = ""
        self.given_up = ""  # why it stays down
        self.restarts = 0

    @property
    @abstractmethod
    def title(self) -> str:
        """Its name in the log and in the process's title."""

    @property
    @abstractmethod
    def line(self) -> DoorState | DispatcherState:
        """The process's state in the shared segment."""

    @property
    @abstractmethod
    def busy_since_ns(self) -> int:
        """When the process began its present work; 0 if it is idle."""

    @property
    def empty(self) -> bool:
        """Whether no process may run in it."""
        return False

    @property
    def phase(self) -> str:
        """The phase of the server."""
        return str(self.shared.segment.phase)

    @property
    def ready(self) -> bool:
        """Whether it runs and serves. A dead process is settled in the segment after it is reaped, or when all of its
        device's are, so a killed process counts as not ready from the start: it may never be reaped."""
        return self.child is not None and not self.child.exited.done() and not self.killed and self.line.ready

    @property
    def killed(self) -> bool:
        """Whether its process was killed. It stays here until it has been reaped."""
        return self.child is not None and self.child.killed

    def start(self, listener_fd: int, parent_pid: int) -> Child:
        """Starts the next incarnation. ``OSError`` where the system refuses a process."""
        self.announce(0)
        settings = self.settings(listener_fd, parent_pid)
        child = self._system.spawn(
            command(settings.module, write_settings(settings)),
            self.fds(listener_fd),
            self.environment(),
            self._on_line,
        )
        self.announce(child.pid)
        self.watched = Watched(self._system.now_ns())
        self.child = child
        return child

    def kill(self, reason: str) -> None:
        """Sends SIGKILL once, and logs the reason. The process is settled when it is reaped."""
        if self.child is not None and not self.killed:
            self.log.warning(f"killing {self.title} (pid {self.child.pid}): {reason}")
            self.child.signal(signal.SIGKILL)

    def overdue(self, now: int, charge_ns: int, step_timeout_ns: int) -> str | None:
        """Returns why its process must be killed, or None. Call it once a tick."""
        if self.child is None or self.child.exited.done() or self.killed:
            return None
        line, pid = self.line, self.child.pid
        if line.ready:  # the whole time, also ticks that were not charged to it
            self.served_s += (now - max(self._looked_ns, self.watched.started_ns)) / 1e9
        self._looked_ns = now
        return self.watched.overdue(
            charge_ns,
            heartbeat_ns=line.heartbeat_ns,
            ready=line.ready,
            step_started_ns=self.busy_since_ns,
            step_timeout_ns=step_timeout_ns,
            is_stopped=lambda: self._system.is_stopped(pid),
        )

    def cannot_be_ended(self, charge_ns: int) -> bool:
        """Whether its process is given up now, because it was killed long ago and still exists. Call it once a tick."""
        if self.child is None or self.child.exited.done() or not self.killed or self.given_up:
            return False
        self.watched.dying_ns += charge_ns
        if self.watched.dying_ns < REAP_MAX_S * 1e9:
            return False
        self.given_up = "it was killed and does not end: a driver or a debugger holds it"
        self.log.error(f"{self.title} (pid {self.child.pid}) stays down: {self.given_up}")
        return True

    @abstractmethod
    def announce(self, pid: int) -> None:
        """Records the incarnation that starts in the segment. Pid 0: it does not exist yet."""

    @abstractmethod
    def settle(self) -> None:
        """Records the death in the segment. Only after reaping, when no late store can follow."""

    @abstractmethod
    def settings(self, listener_fd: int, parent_pid: int) -> Settings:
        """The settings that the next incarnation starts with."""

    def fds(self, listener_fd: int) -> tuple[int, ...]:
        """The descriptors that the next incarnation inherits."""
        del listener_fd
        return self.shared.inherited

    def environment(self) -> dict[str, str]:
        """The additional environment of its process."""
        return environment()

    def _on_line(self, line: str) -> None:
        self.last_line = leveled(line)[1].strip() or self.last_line
        self.log.output(self.title, line)
