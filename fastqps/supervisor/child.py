"""One child process: starts it, reads its output line by line, kills and reaps it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fastqps import _core

LINE_BYTES_MAX = 8192
READS_LAST_MAX = 64
UNDO_MAX_S = 1.0
REAP_AGAIN_S = 0.1
# Rounds that a compute thread spins for the next operation before it sleeps, some 0.3 ms: longer than the host is
# between two of them. The runtime's own 300,000 hold a core for milliseconds that whoever waits for it could use.
_SPINS = 10_000
_TOKENS = ("HF_TOKEN", "HF_TOKEN_PATH", "HUGGING_FACE_HUB_TOKEN")


class Child:
    """A running process. Start it on the main thread: its parent-death signal belongs to the thread that started it.

    ``exited`` is set with the exit code (negative: the signal) once the process is reaped, never before. Raises
    ``OSError`` if the system refuses a resource; then there is no process.
    """

    def __init__(
        self,
        command: Sequence[str],
        fds: Sequence[int],
        environment: Mapping[str, str],
        on_line: Callable[[str], None],
    ) -> None:
        self.killed = False  # by the supervisor; reaping may follow late or never
        self._loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[int] = self._loop.create_future()
        self._on_line = on_line
        self._partial = b""
        # Its own process group: Ctrl-C in a terminal reaches only the supervisor, which then drains.
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=tuple(fds),
            env=dict(environment),
            process_group=0,
            bufsize=0,
        )
        self.pid = self._process.pid
        assert self._process.stdout is not None
        self._output = self._process.stdout.fileno()
        self._pidfd = -1
        try:
            os.set_blocking(self._output, False)
            self._loop.add_reader(self._output, self.read)  # the result is for _reap
            self._pidfd = os.pidfd_open(self.pid)
            self._loop.add_reader(self._pidfd, self._reap)
        except OSError:  # an old kernel, a seccomp profile, too many files open
            self._undo()
            raise

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal. Does nothing once the process is reaped."""
        if not self.exited.done():
            self.killed = self.killed or number == signal.SIGKILL
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def stop(self, grace_s: float) -> int:
        """Sends SIGTERM, then SIGKILL after ``grace_s``. Returns the exit code."""
        self.signal(signal.SIGTERM)
        await asyncio.wait([self.exited], timeout=grace_s)
        self.signal(signal.SIGKILL)
        return await asyncio.shield(self.exited)

    def read(self) -> bool:
        """Passes available lines on. Returns False if there are none for now, or at the end."""
        try:
            data = os.read(self._output, 65536)
        except BlockingIOError:
            return False
        if not data:
            self._loop.remove_reader(self._output)
            return False
        *lines, self._partial = (self._partial + data).split(b"\n")
        if len(self._partial) > LINE_BYTES_MAX:
            lines.append(self._partial)
            self._partial = b""
        for line in lines:
            self._on_line(line[:LINE_BYTES_MAX].decode(errors="replace"))
        return True

    def _undo(self) -> None:
        """Kills a half-started child; otherwise it would be orphaned and started twice."""
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):  # subprocess reaps it with a later start
            self._process.wait(UNDO_MAX_S)
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
        self._loop.remove_reader(self._output)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _reap(self) -> None:
        code = self._process.poll()
        self._loop.remove_reader(self._pidfd)
        if code is None:  # it has ended, but a debugger still holds it
            self._loop.call_later(REAP_AGAIN_S, self._loop.add_reader, self._pidfd, self._reap)
            return
        os.close(self._pidfd)
        for _ in range(READS_LAST_MAX):  # the reason of its death may still be in the pipe
            if not self.read():
                break
        if self._partial:
            self._on_line(self._partial.decode(errors="replace"))
        self._loop.remove_reader(self._output)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self.exited.set_result(code)


def ended(code: int) -> str:
    """Describes how a process ended, for messages."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def command(module: str, settings: str) -> list[str]:
    """The command line of a child."""
    return [sys.executable, "-P", "-m", "fastqps.process.launch", module, settings]


def environment(threads: int | None = None) -> dict[str, str]:
    """The supervisor's environment, with the path of this package and what libraries have to know of threads.

    It has no token of the hub: only the supervisor downloads, and children read what strangers send.
    """
    found = {name: value for name, value in os.environ.items() if name not in _TOKENS}
    home = str(Path(__file__).parents[2])
    found["PYTHONPATH"] = os.pathsep.join(filter(None, (home, found.get("PYTHONPATH"))))
    found["PYTHONUNBUFFERED"] = "1"
    if threads is not None:
        found.update(OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
        if "OMP_WAIT_POLICY" not in found:
            found.setdefault("GOMP_SPINCOUNT", str(_SPINS))
    return found


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped (SIGSTOP, a debugger). By its heartbeat alone it could also be starving."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(") ")[2][:1] in ("T", "t")


Spawn = Callable[[Sequence[str], Sequence[int], Mapping[str, str], Callable[[str], None]], Child]


class System(NamedTuple):
    """Starts processes, and looks at them and at the clock. All delays and deadlines are the event loop's."""

    spawn: Spawn = Child
    now_ns: Callable[[], int] = _core.now_ns  # of CLOCK_MONOTONIC, as heartbeats are
    is_stopped: Callable[[int], bool] = is_stopped


HOST = System()
