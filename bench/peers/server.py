"""Another server as a program of its own, pinned to one CPU."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence

from bench.peers.environment import ROOT
from fastqps.bench.measure.child_process import child_process
from fastqps.bench.results.result import BenchError

_START_S = 120.0
_STOP_S = 10.0


@contextlib.contextmanager
def peer_server(
    command: Sequence[str], health: str, cpu: int, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[str]]:
    """From ``with`` on, when it answers a GET of ``health`` by anything; it is asked to end at the end."""
    with (
        tempfile.TemporaryFile("w+") as log,
        child_process(
            ["taskset", "-c", str(cpu), *command],
            end_s=_STOP_S,
            cwd=ROOT,
            env={**os.environ, **environment},
            stdout=log,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        deadline = time.monotonic() + _START_S
        while not _answers(health):
            if process.poll() is not None or time.monotonic() > deadline:
                log.seek(0)
                raise BenchError(f"{' '.join(command)} was not ready; it said:\n{log.read().strip()[-1000:]}")
            time.sleep(0.2)
        yield process


def _answers(health: str) -> bool:
    try:
        with urllib.request.urlopen(health, timeout=2):
            return True
    except urllib.error.HTTPError as error:
        return error.code < 500  # not before its workers are there
    except OSError:
        return False


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nobody listens on now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
