"""Another server as a program of its own, pinned to one CPU."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from bench.peers.environment import ROOT
from fastqps.bench.results.result import BenchError

_START_S = 120.0
_STOP_S = 10.0


class PeerServer:
    """From ``with`` on, when it answers a GET of ``health`` by anything; it is asked to end at the end."""

    def __init__(self, command: Sequence[str], health: str, cpu: int, environment: Mapping[str, str]) -> None:
        self._command = ["taskset", "-c", str(cpu), *command]
        self._health = health
        self._environment = {**os.environ, **environment}
        self._open = ExitStack()

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> Self:
        self._log = self._open.enter_context(tempfile.TemporaryFile("w+"))
        self._process = subprocess.Popen(
            self._command,
            cwd=ROOT,
            env=self._environment,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
        try:
            deadline = time.monotonic() + _START_S
            while not self._answers():
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self._log.seek(0)
                    said = self._log.read().strip()[-1000:]
                    raise BenchError(f"{' '.join(self._command)} was not ready; it said:\n{said}")
                time.sleep(0.2)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(self._health, timeout=2):
                return True
        except urllib.error.HTTPError as error:
            return error.code < 500  # not before its workers are there
        except OSError:
            return False

    def _end(self) -> None:
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP_S)
        # LitServe leaves workers behind, which would take the core from whatever is measured next.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._open.close()


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nobody listens on now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
