"""A real server in a child process: for the demo, the bench, and tests that want one."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

_READY = re.compile(r"\bready: .* at (\S+?)(?:, http (\S+))?, admin (\S+)")
_LINES_KEPT = 200


class ServerError(Exception):
    """The server did not become ready; the message ends with its output."""


class ServerProcess:
    """``fastqps serve`` on free ports of the loopback interface, from ``with`` on; it is drained at the end.

        with ServerProcess("--model", "minilm", "--device", "null") as server:
            Client(server.address)

    ``flags`` as on the command line. ``cpus``: the only CPUs it may use. ``prefix``: what its command begins with.
    ``own_group``: Ctrl-C on the terminal is not for it. ``on_line`` gets each line of its log.
    """

    def __init__(
        self,
        *flags: str,
        cpus: Sequence[int] = (),
        prefix: Sequence[str] = (),
        own_group: bool = False,
        ready_timeout_s: float = 120.0,
        on_line: Callable[[str], None] | None = None,
    ) -> None:
        pinned = ["taskset", "-c", ",".join(map(str, cpus))] if cpus else []
        serve = [sys.executable, "-m", "fastqps", "serve", "--port", "0", "--http-port", "off", "--admin-port", "0"]
        serve += ["--log-format", "text", "--log-level", "info"]  # its line "ready" is read
        self.command = [*prefix, *pinned, *serve, *flags]
        self.address = ""  # HOST:PORT of gRPC
        self.http = ""  # HOST:PORT of plain HTTP, which needs the flags --http-port 0
        self.admin = ""  # http://HOST:PORT of the admin pages
        self.ready_after_s = 0.0
        self._group = 0 if own_group else None
        self._ready_timeout_s = ready_timeout_s
        self._on_line = on_line
        self._lines: deque[str] = deque(maxlen=_LINES_KEPT)
        self._ready = threading.Event()  # or ended

    def __enter__(self) -> Self:
        """Returns when the server is ready; raises ``ServerError`` if that does not happen."""
        began = time.monotonic()
        self._process = subprocess.Popen(
            self.command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, process_group=self._group
        )
        self._reader = threading.Thread(target=self._read, name="server log", daemon=True)
        self._reader.start()
        try:
            self._ready.wait(self._ready_timeout_s)
            if not self.address and self._ready.is_set():  # its output has ended: let it exit with its own code
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(5)
        except BaseException:
            self.kill()
            raise
        self.ready_after_s = time.monotonic() - began
        if not self.address:
            self.kill()
            raise ServerError(f"{' '.join(self.command)} was not ready; it said:\n" + "\n".join(self._lines))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.drain()

    @property
    def pid(self) -> int:
        """The pid of the supervisor."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def drain(self, timeout_s: float = 60.0) -> int:
        """Sends SIGTERM, so that open requests are finished. Returns the exit code, also of an ended server."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.kill()
        self._reader.join(timeout=5)
        return self._process.returncode

    def kill(self) -> None:
        """Ends the server at once; its processes die with it."""
        self._process.kill()
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as log:
            for line in log:
                self._lines.append(line.rstrip())
                if found := _READY.search(line):
                    self.address, self.http, self.admin = found.group(1), found.group(2) or "", found.group(3)
                    self._ready.set()
                if self._on_line:
                    self._on_line(line.rstrip())
        self._ready.set()
