"""CPU time and memory of the server's processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from fastqps.host.machine import allowed_cpus, cgroup, memory_bytes, memory_used_bytes

ROLES = ("supervisor", "frontdoor", "tokenizer", "dispatcher", "holder", "mps")
_PROCESS_CLOCK = 2  # of a process, all of its threads: see clock_getcpuclockid(3)


class Usage:
    """Samples the processes once a second. CPU time between the last sample and a process's end is not counted.

    ``shared_bytes``: memory that all of them share. ``processes``: all that there are now, each with its role.
    """

    def __init__(self, shared_bytes: int, processes: Callable[[], Iterable[tuple[str, int]]]) -> None:
        self._shared_bytes = shared_bytes
        self._processes = processes
        quota = cgroup().cpu_quota_cores
        self._cpus = min(len(allowed_cpus()), quota or float("inf"))
        self._memory_bytes = memory_bytes()
        self._seen: dict[int, float] = {}  # CPU time by process
        self._at_s = time.monotonic()
        self.cpu_s = dict.fromkeys(ROLES, 0.0)
        self.cpu_utilization = 0.0
        self.look()

    def look(self) -> None:
        """Once a second."""
        seen: dict[int, float] = {}
        before_s = sum(self.cpu_s.values())
        for role, pid in self._processes():
            if (used_s := cpu_s(pid)) is not None:
                seen[pid] = used_s
                self.cpu_s[role] += max(0.0, used_s - self._seen.get(pid, 0.0))
        self._seen = seen
        now_s = time.monotonic()
        if now_s > self._at_s:
            used = (sum(self.cpu_s.values()) - before_s) / (now_s - self._at_s)
            self.cpu_utilization = min(1.0, used / self._cpus)
        self._at_s = now_s
        self.memory_utilization = min(1.0, memory_used_bytes() / self._memory_bytes)

    def memory(self) -> dict[str, int]:
        """Bytes by role, each counted once: private memory of processes, and shared memory."""
        private = dict.fromkeys(ROLES, 0)
        for role, pid in self._processes():
            private[role] += private_bytes(pid)
        return {**private, "shared": self._shared_bytes}


def cpu_s(pid: int) -> float | None:
    """The CPU time of a process in all of its threads; None if it is gone."""
    try:
        return time.clock_gettime(~pid << 3 | _PROCESS_CLOCK)
    except OSError:
        return None


def private_bytes(pid: int) -> int:
    """Memory that only this process has; 0: it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("RssAnon:")), 0)
