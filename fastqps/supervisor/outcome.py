"""Why a server ends: a signal asks it to, a second one hurries it, or something failed."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any

from fastqps.errors import FAILURE, NO_DEVICE, NO_MODEL, USAGE
from fastqps.supervisor.log import Log

# A child that ends with one of these codes can never start, so the server ends with the same code.
FATAL_AT_START = (USAGE, NO_DEVICE, NO_MODEL)
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Outcome:
    """The signals and failures that end the server. Create it inside the running loop."""

    def __init__(self, log: Log) -> None:
        self.leaving = asyncio.Event()  # the first signal
        self.draining = asyncio.Event()  # no new clients: front doors that end now are not restarted
        self.hurry = asyncio.Event()  # the second
        self._log = log
        self._failed: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    @property
    def failed(self) -> int | None:
        """The exit code of the failure, if there was one."""
        return self._failed.result() if self._failed.done() else None

    def take_signals(self, reload: Callable[[], None]) -> None:
        """Handles SIGTERM, SIGINT and SIGHUP (``reload``) from now on; also those that have come while they were
        blocked."""
        nohup = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        terminal = Terminal()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._take(number, functools.partial(self._on_signal, number))
        self._take(signal.SIGHUP, lambda: self._on_hangup(terminal, nohup, reload))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def ignore_signals(self) -> None:
        """Ignores signals from now on, because the way in which this process ends is settled."""
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)

    def fail(self, code: int, message: str) -> None:
        """Ends the server with ``code``; the first failure counts."""
        if not self._failed.done():
            self._log.error(message)
            self._failed.set_result(code)

    def watch(self, task: asyncio.Task[Any]) -> None:
        """Makes the server end if this task raises."""
        task.add_done_callback(self._on_task_end)

    async def first(self, *things: Awaitable[Any]) -> None:
        """Waits until one of ``things`` is over, or the server has failed; cancels the others."""
        tasks = [asyncio.ensure_future(thing) for thing in things]
        await asyncio.wait([*tasks, self._failed], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()

    def _take(self, number: signal.Signals, handle: Callable[[], None]) -> None:
        """Handles a signal. Not ``loop.add_signal_handler``: a closing loop restores the handlers, so that a signal
        kills."""
        loop = asyncio.get_running_loop()
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(handle))

    def _on_signal(self, number: signal.Signals) -> None:
        if self.leaving.is_set():
            self._log.info(f"{number.name} again: stopping at once")
            self.hurry.set()
        else:
            self._log.info(number.name)
            self.leaving.set()

    def _on_hangup(self, terminal: Terminal, nohup: bool, reload: Callable[[], None]) -> None:
        if not terminal.lost():
            self._log.info("SIGHUP")
            reload()
        elif nohup:
            self._log.info("the terminal is gone")
        else:  # otherwise the signal would end this process without a drain
            self._on_signal(signal.SIGHUP)

    def _on_task_end(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(FAILURE, f"broken: {error!r}")


class Terminal:
    """The terminal from which the server was started, if any."""

    def __init__(self) -> None:
        self._had = _is_there()

    def lost(self) -> bool:
        """Whether the terminal has closed since the last call, which explains a SIGHUP."""
        if not self._had or _is_there():
            return False
        self._had = False
        return True


def _is_there() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
