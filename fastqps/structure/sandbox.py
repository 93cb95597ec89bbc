"""Compiles structures in a process of their own, whose limits protect this one."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from multiprocessing.connection import Connection

from fastqps.models.card import ModelCard
from fastqps.structure.sandbox_process import CPU_S, LOAD_S, WALL_FACTOR, Outcome
from fastqps.structure.structure import Structure

_ANSWER_S = LOAD_S + 2 * CPU_S * WALL_FACTOR  # the first answer waits for the vocabulary
_TRIES = 2


class Sandbox:
    """A process that compiles structures for the tokens of a model. It starts at once, and again when it has died.

    Not thread-safe. Made and used in one thread, which must live as long as this process: the kernel kills what a
    thread has started when that ends. ``title``: of the process.
    """

    def __init__(self, card: ModelCard, title: str = "structures") -> None:
        self._card = card
        self._title = title
        self._connection: Connection | None = None
        self._start()

    def run(self, structure: Structure) -> int:
        """The bytes that it takes. ``ValueError`` says what it exceeds, or what is wrong with it.

        ``ChildProcessError`` if the process cannot run, or cannot tell now.
        """
        for _ in range(_TRIES):
            with contextlib.suppress(OSError, EOFError):
                outcome = self._ask(structure)
                break
            self.close()
        else:
            raise ChildProcessError("the process that compiles structures has ended")
        if outcome.error:
            raise ValueError(outcome.error) if outcome.is_refused else ChildProcessError(outcome.error)
        return outcome.size

    def close(self) -> None:
        """Ends the process."""
        if self._connection:
            self._connection.close()
            self._connection = None
            self._process.kill()
            self._process.wait()

    def _ask(self, structure: Structure) -> Outcome:
        connection = self._connection or self._start()
        connection.send_bytes(json.dumps(structure).encode())
        if not connection.poll(_ANSWER_S):
            raise EOFError
        return Outcome(*json.loads(connection.recv_bytes()))

    def _start(self) -> Connection:
        ours, theirs = socket.socketpair()
        with theirs:
            fd = theirs.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "fastqps.structure.sandbox_process", str(fd), str(os.getpid()), self._title],
                stdin=subprocess.DEVNULL,
                pass_fds=(fd,),
            )
        self._connection = Connection(ours.detach())
        self._connection.send_bytes(self._card.to_json().encode())
        return self._connection
