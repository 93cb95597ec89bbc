"""CPU time, memory and descriptors of a server's processes, by role, from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """The usage of one process: its title, CPU seconds since its start (``kernel_s`` of them in the kernel), resident
    bytes (``shared_bytes`` of them shared memory), open descriptors."""

    title: str
    cpu_s: float
    kernel_s: float
    resident_bytes: int
    shared_bytes: int
    descriptors: int

    @property
    def role(self) -> str:
        """supervisor, frontdoor, dispatcher; of something else the name of the program."""
        return Path(self.title.removeprefix("fastqps: ").split(" ")[0]).name


def usage(pid: int) -> list[Usage]:
    """The usage of a process and its descendants. Those that end meanwhile are left out."""
    return [part for p in _tree(pid) for part in _usage(p)]


def cpu_by_role(pid: int) -> dict[str, float]:
    """CPU seconds of a server so far: ``supervisor``, ``frontdoor``, ``dispatcher``, and ``kernel``, which is contained
    in the others."""
    cpu_s: dict[str, float] = {"kernel": 0.0}
    for part in usage(pid):
        cpu_s[part.role] = cpu_s.get(part.role, 0.0) + part.cpu_s
        cpu_s["kernel"] += part.kernel_s
    return cpu_s


def _tree(pid: int) -> list[int]:
    pids = [pid]
    for process in pids:
        try:
            for path in Path(f"/proc/{process}/task").glob("*/children"):
                pids += map(int, path.read_text().split())
        except OSError:
            continue
    return pids


def _usage(pid: int) -> Iterator[Usage]:
    root = Path(f"/proc/{pid}")
    try:
        # The command's name may hold anything; what follows its closing bracket is plain.
        fields = (root / "stat").read_text().rpartition(")")[2].split()
        status = dict(line.split(":", 1) for line in (root / "status").read_text().splitlines())
        title = (root / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        descriptors = len(os.listdir(root / "fd"))
    except OSError:
        return
    if "VmRSS" not in status:  # it has ended, and nobody has waited for it yet
        return
    yield Usage(
        title,
        (int(fields[11]) + int(fields[12])) * _TICK_S,
        int(fields[12]) * _TICK_S,
        _kib(status["VmRSS"]) << 10,
        _kib(status["RssShmem"]) << 10,
        descriptors,
    )


def _kib(text: str) -> int:
    return int(text.split()[0])
