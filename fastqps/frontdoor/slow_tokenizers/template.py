"""The front door's side of the process that loads its tokenizers and forks their workers."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from fastqps.frontdoor.slow_tokenizers.limits import ANSWER_S, LOAD_S, MESSAGE_BYTES
from fastqps.frontdoor.slow_tokenizers.worker import Worker

TRIES = 5


class Template:
    """From any thread. The process starts when the first tokenizer is loaded, or the first worker forked, and again
    when it has died or does not answer.

    ``thread``: one that lives as long as the front door, since the kernel kills what a thread has started when it ends.
    """

    def __init__(self, name: str, thread: ThreadPoolExecutor) -> None:
        self.pid = 0
        self.early = False  # a tokenizer is loaded of which all texts come here: its workers are there before them
        self._name = name
        self._cards: dict[int, str] = {}  # by route
        self._changes = 0
        self._control: socket.socket | None = None
        self._thread = thread

    @property
    def changes(self) -> int:
        """The number of loads and drops so far. A worker forked before the latest of them must be replaced."""
        return self._changes

    def load(self, route: int, card: str) -> None:
        """Loads the tokenizer of a model's card. Raises ``ValueError`` if it cannot be used."""
        self._thread.submit(self._load, route, card).result()

    def keep(self, route: int, card: str) -> None:
        """Has the tokenizer of a model's card loaded when the process starts, which is not yet."""
        self._thread.submit(self._keep, route, card).result()

    def drop(self, route: int) -> None:
        """Drops the tokenizer of a route."""
        self._thread.submit(self._drop, route).result()

    def fork(self, title: str, nice: int) -> Worker:
        """Forks a new worker, which has all loaded tokenizers."""
        return self._thread.submit(self._fork, title, nice).result()

    def end(self, worker: Worker) -> int:
        """Kills a worker, and returns the signal that ended it, or 0."""
        return self._thread.submit(self._end, worker).result()

    def _load(self, route: int, card: str) -> None:
        self._ask("load", route, card)
        self._cards[route] = card
        self._changes += 1
        self.early = True

    def _keep(self, route: int, card: str) -> None:
        if self._control:
            self._ask("load", route, card)
        self._cards[route] = card
        self._changes += 1

    def _drop(self, route: int) -> None:
        if self._cards.pop(route, None) is not None:
            if self._control:
                self._ask("drop", route)
            self._changes += 1

    def _fork(self, title: str, nice: int) -> Worker:
        ours, theirs = socket.socketpair()
        with theirs:
            pid = self._ask("fork", title, nice, fd=theirs.fileno())
        return Worker(pid, Connection(ours.detach()), self._changes)

    def _end(self, worker: Worker) -> int:
        worker.close()
        return int(self._ask("end", worker.pid))

    def _ask(self, *message: Any, fd: int | None = None) -> Any:
        """Sends a message and returns its answer. Raises ``ValueError`` with the process's own error."""
        for _ in range(TRIES - 1):
            try:
                return self._ask_once(message, fd)
            except (OSError, EOFError):
                self._stop()
        return self._ask_once(message, fd)

    def _ask_once(self, message: tuple[Any, ...], fd: int | None) -> Any:
        if self._control is None:
            self._start()
        assert self._control
        self._control.settimeout(LOAD_S if message[0] == "load" else ANSWER_S)
        socket.send_fds(self._control, [json.dumps(message).encode()], [] if fd is None else [fd])
        data = self._control.recv(MESSAGE_BYTES)
        if not data:
            raise EOFError("the process that loads tokenizers has ended")
        value, error = json.loads(data)
        if error:
            raise ValueError(error)
        return value

    def _stop(self) -> None:
        """Ends the process: it has died, or it does not answer."""
        if self._control:
            self._control.close()
            self._control = None
            self._process.kill()
            self._process.wait()

    def _start(self) -> None:
        """Starts the process, and loads the tokenizers that the previous one had."""
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-m", "fastqps.frontdoor.slow_tokenizers.process"]
            fd = theirs.fileno()
            self._process = subprocess.Popen(
                [*command, str(fd), str(os.getpid()), self._name],
                stdin=subprocess.DEVNULL,
                pass_fds=(fd,),
                env={**os.environ, "TOKENIZERS_PARALLELISM": "false"},  # it must be able to fork
            )
        self.pid = self._process.pid
        self._changes += 1
        for route, card in self._cards.items():
            with suppress(ValueError):  # its texts alone are refused, with the reason
                self._ask_once(("load", route, card), None)
