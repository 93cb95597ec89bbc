"""How a server goes away: at once, without a word, or in order."""

from __future__ import annotations

import signal

from serving import Server


def killed(server: Server) -> None:
    server.kill()


def stopped(server: Server) -> None:
    for process in server.processes():
        process.suspend()


def drained(server: Server) -> None:
    server.signal(signal.SIGTERM)
