"""Ports for programs that must be told one."""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path

FIRST = 10_000
RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """A free port below those that the kernel gives to whoever asks for any: so nobody has it before its program binds
    it, or binds it again."""
    given_from = max(int(RANGE.read_text().split()[0]), FIRST + 10_000)  # where nearly all are given away, so be it
    for _ in range(1000):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", random.randrange(FIRST, given_from)))
            return int(probe.getsockname()[1])
    raise AssertionError(f"no free port from {FIRST} to {given_from - 1}")
