"""A private daemon of NVIDIA's MPS: while it runs, the processes of one GPU run on it at the same time.

Without it a GPU gives each process its turn. The daemon is the program nvidia-cuda-mps-control, in the foreground, so
that it is a child like all others and ends with us; with the first process that uses the GPU it starts a server, whose
clients they are. A process that does not find the daemon is no client and says nothing: so they are counted.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path

from fastqps.errors import FastqpsError
from fastqps.host.gpus import VISIBLE, Gpu
from fastqps.process.background import UnexpectedError, in_background
from fastqps.supervisor.child import Child, environment
from fastqps.supervisor.log import Log
from fastqps.supervisor.run_directory import PIPES, RunDirectory, kill_mps

PROGRAM = "nvidia-cuda-mps-control"
DRIVER = "/usr/local/nvidia/bin"  # where containers get the driver's programs mounted, possibly outside the PATH
LOGS = "CUDA_MPS_LOG_DIRECTORY"
LONGEST_SOCKET = "control_privileged"
SOCKET_PATH_MAX = 107  # bytes
START_MAX_S = 10.0
ASK_MAX_S = 3.0
SERVERS_MAX = 4  # a daemon for one GPU and one user has one
CLIENTS_MAX_S = 3.0  # from a process's readiness until it counts as a client
QUIT_S = 2  # time for servers to end by themselves
QUIT_MAX_S = 5.0
POLL_S = 0.1


class MpsError(FastqpsError):
    """There is no daemon; the message says why."""


class MpsDaemon:
    """The daemon of one GPU. ``start`` may be called again after ``stop``."""

    def __init__(self, gpu: Gpu, run: RunDirectory, log: Log) -> None:
        self.title = f"mps {gpu.index}"
        self._gpu = gpu
        self._run = run
        self._folder = run.folder(f"gpu{gpu.index}")
        self._log = log
        self._child: Child | None = None
        self._servers: list[int] = []
        self._last_line = ""
        self._program = ""

    @property
    def pipes(self) -> Path:
        """The folder in which its clients find it."""
        return self._folder / "p"

    @property
    def pids(self) -> list[int]:
        """The pids of the daemon and of its last known servers."""
        return [] if self._child is None or self.ended else [self._child.pid, *self._servers]

    @property
    def ended(self) -> bool:
        """Whether it was started and has ended."""
        return self._child is not None and self._child.exited.done()

    async def start(self) -> None:
        """Starts the daemon, and returns when it answers. Raises ``MpsError`` otherwise, and leaves no process
        behind."""
        self._program = _program(self._gpu)
        _check_length(self.pipes)
        try:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._run.folder(self._folder.name)
            for path in (self.pipes, self._folder / "l"):
                path.mkdir(mode=0o700)
            command = [sys.executable, "-P", "-m", "fastqps.process.prctl", str(os.getpid()), self._program, "-f"]
            self._child = Child(command, (), self._environment(), self._on_line)
        except OSError as error:
            raise MpsError(f"{PROGRAM} cannot be started: {error}") from None
        self._log.info(f"started {self.title} (pid {self._child.pid})")
        try:
            await self._until_it_answers(self._child)
        except MpsError:
            await self.stop()
            raise
        except asyncio.CancelledError:
            self._child.signal(signal.SIGKILL)
            kill_mps(self._folder)
            raise

    async def absent(self, pids: Collection[int]) -> list[int]:
        """Returns those of ``pids`` that are still no clients of the daemon after a time limit. Raises ``MpsError``."""
        give_up = time.monotonic() + CLIENTS_MAX_S
        while missing := sorted(set(pids) - {client for _, client in await self._clients()}):
            if time.monotonic() > give_up:
                break
            await asyncio.sleep(POLL_S)
        return missing

    async def terminate(self, pids: Collection[int]) -> bool:
        """Takes clients off the GPU, so that a signal does not hit their work. Returns whether all have left it."""
        try:
            for server, client in await self._clients():
                if client in pids:
                    await self._ask(f"terminate_client {server} {client}")
        except MpsError as error:
            self._log.warning(f"{self.title}: {error}")
            return False
        return True

    async def stop(self) -> None:
        """Ends the daemon and its servers, by its own command or by SIGKILL."""
        child, self._child = self._child, None
        self._servers = []
        if child is None:
            return
        try:
            await self._quit(child)
        finally:  # even if no caller waits any more
            child.signal(signal.SIGKILL)
            if left := kill_mps(self._folder):
                self._log.warning(f"{self.title}: killed what it left behind: {', '.join(map(str, left))}")
        await asyncio.wait([child.exited], timeout=QUIT_MAX_S)

    async def _quit(self, child: Child) -> None:
        """Asks it to end, and waits."""
        if child.exited.done():
            return
        try:
            await self._ask(f"quit -t {QUIT_S}")
        except MpsError as error:
            self._log.warning(f"{self.title}: {error}")
        else:
            await asyncio.wait([child.exited], timeout=QUIT_MAX_S)

    async def _until_it_answers(self, child: Child) -> None:
        give_up = time.monotonic() + START_MAX_S
        while True:
            if child.exited.done():
                raise MpsError(f"the daemon ended with exit code {child.exited.result()}{self._why()}")
            try:
                await self._ask("get_server_list")
                return
            except MpsError as error:
                if time.monotonic() > give_up:
                    raise MpsError(f"{error}{self._why()}") from None
            await asyncio.sleep(POLL_S)

    async def _clients(self) -> list[tuple[int, int]]:
        """Returns (server, client) pairs of process ids."""
        found = []
        self._servers = _numbers(await self._ask("get_server_list"))[:SERVERS_MAX]
        for server in self._servers:
            found += [(server, client) for client in _numbers(await self._ask(f"get_client_list {server}"))]
        return found

    async def _ask(self, command: str) -> str:
        """Sends a command to the daemon and returns its answer."""
        try:
            return await in_background(lambda: self._ask_now(command))
        except UnexpectedError as error:
            raise MpsError(f"{PROGRAM} cannot be asked: {error}") from None

    def _ask_now(self, command: str) -> str:
        try:
            done = subprocess.run(
                [self._program],
                input=f"{command}\n",
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env=self._environment(),
                timeout=ASK_MAX_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise MpsError(f"{PROGRAM} did not answer {command!r} in {ASK_MAX_S:g} s") from None
        except OSError as error:
            raise MpsError(f"{PROGRAM} cannot be run: {error}") from None
        if done.returncode:
            raise MpsError(f"{PROGRAM} refused {command!r}: {_last_line(done.stdout) or f'code {done.returncode}'}")
        return done.stdout

    def _environment(self) -> dict[str, str]:
        own = environment()
        return own | {
            "PATH": os.pathsep.join(filter(None, (own.get("PATH"), str(Path(self._program).parent)))),  # has its server
            VISIBLE: self._gpu.uuid,
            PIPES: str(self.pipes),
            LOGS: str(self._folder / "l"),
        }

    def _on_line(self, line: str) -> None:
        self._last_line = line.strip() or self._last_line
        self._log.event(self.title, line)

    def _why(self) -> str:
        """The last line of its output or its logs."""
        said = self._last_line
        for name in ("control.log", "server.log"):
            path = self._folder / "l" / name
            if path.is_file():
                said = _last_line(path.read_text(errors="replace")) or said
        return f": {said}" if said else ""


def find_program() -> str | None:
    """Finds the daemon's program on the PATH or beside the driver."""
    return shutil.which(PROGRAM) or shutil.which(PROGRAM, path=DRIVER)


def _program(gpu: Gpu) -> str:
    if gpu.mig:
        raise MpsError("it is a MIG instance, on which MPS does not run")
    found = find_program()
    if found is None:
        raise MpsError(f"{PROGRAM} is not here (it comes with the NVIDIA driver; in a container, with its utilities)")
    return found


def _check_length(pipes: Path) -> None:
    if len(os.fsencode(pipes / LONGEST_SOCKET)) > SOCKET_PATH_MAX:
        raise MpsError(f"{pipes} is too long a path for sockets; set TMPDIR to a shorter one")


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split() if word.isdecimal()]


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else ""
