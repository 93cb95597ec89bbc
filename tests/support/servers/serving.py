"""A server under test: started as its user would start it, looked at from outside, and gone without a trace."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any

import psutil
from gates import Gate, Gates
from paths import SUPPORT, python_path
from samples import read_samples

PATIENCE_S = (
    60.0  # the end of a wait for what will come, on a machine that is slow or stands still: no measure of anything
)
START_S = PATIENCE_S
ACCOUNT_S = 10.0
LOOK_S_MIN, LOOK_S_MAX = 0.01, 0.2  # from one look at a condition to the next
READY = re.compile(r"ready: .* at (\S+?)(?:, http (\S+))?, admin http://(\S+)")
_MEASURED = {
    "cpu": {"--dispatchers": "1", "--max-batch-items": "16"},  # a start runs full steps
    "sim": {"--max-batch-items": "256"},
    "cuda": {"--max-batch-items": "1024"},
}
GAUGES_OF_WORK = ("fastqps_slots_used", "fastqps_requests_running", "fastqps_requests_waiting")


def until(condition: Callable[[], object], what: str | Callable[[], str], timeout_s: float = PATIENCE_S) -> float:
    """Waits for a condition; the seconds that it took. AssertionError if it does not come.

    What is waited for has the CPU: a look takes a tenth of the time at most, and most cost a server milliseconds.
    """
    start = time.monotonic()
    while True:
        looked = time.monotonic()
        if condition():
            return time.monotonic() - start
        now = time.monotonic()
        if now - start > timeout_s:
            raise AssertionError(f"not within {timeout_s} s: {what if isinstance(what, str) else what()}")
        time.sleep(min(max(LOOK_S_MIN, 9 * (now - looked)), LOOK_S_MAX))


class Server:
    """``fastqps serve`` with the null device and free ports. ``echo``: with the dispatchers of echo_dispatcher.py."""

    def __init__(self, *flags: str, echo: bool = False, env: dict[str, str] | None = None) -> None:
        program = [str(SUPPORT / "servers/serve_echo.py")] if echo else ["-m", "fastqps"]
        usual = {"--device": "null", "--port": "0", "--http-port": "0", "--admin-port": "0", "--model": "minilm"}
        # A drain that hangs gives up before `stop` does, and says so.
        usual |= {"--default-timeout": f"{PATIENCE_S:.0f}s", "--drain-timeout": f"{PATIENCE_S / 2:.0f}s"}
        # What a start measures, unless it is set: no other test waits for that.
        device = next((flag.partition("=")[2] for flag in flags if flag.startswith("--device=")), "null")
        usual |= {"--slots": "2048"}  # a start writes the memory of all
        usual |= _MEASURED.get(device.partition(":")[0], {})
        given = {flag.split("=")[0] for flag in flags}
        flags = (*(f"{name}={value}" for name, value in usual.items() if name not in given), *flags)
        self.gates = Gates()
        self.lines: list[str] = []
        self._seen: set[int] = set()
        self._process = subprocess.Popen(
            [sys.executable, *program, "serve", *flags],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                **(env or {}),
                **self.gates.environment,
                "PYTHONPATH": python_path(os.environ.get("PYTHONPATH", "")),
            },
            start_new_session=True,  # all its descendants are found by it
        )
        self.pid = self._process.pid
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self.start_s = until(lambda: self.ready_line or self._process.poll() is not None, "ready", START_S)
            assert self.ready_line, f"the server ended with {self._process.poll()}:\n{self.log()}"
        except AssertionError:
            self.kill()
            raise
        found = READY.search(self.ready_line)
        assert found, self.ready_line
        self.address, self.http, self.admin = found.groups()

    def _read(self) -> None:
        assert self._process.stderr
        for line in self._process.stderr:
            self.lines.append(line.rstrip())

    @property
    def ready_line(self) -> str | None:
        return next((line for line in list(self.lines) if READY.search(line)), None)

    def log(self) -> str:
        return "\n".join(self.lines)

    def account(self) -> str:
        """For people: its log, its processes, and its metrics as far as it still answers, soon: a test that has failed
        late is not to run out of its time here, which would end all tests."""
        try:
            metrics = self.page("/metrics", ACCOUNT_S).decode()
        except (OSError, HTTPException) as error:  # it may be killed in the middle of its answer
            metrics = f"no metrics: {error}"
        samples = [line for line in metrics.splitlines() if not line.startswith("#") and "_bucket{" not in line]
        processes = [f"{process.pid} {title_of(process)}" for process in self.processes()]
        return "\n".join([*self.lines, "", *processes, "", *samples])

    def gate(self) -> AbstractContextManager[Gate]:
        """Holds the requests with its id, of a server with ``echo``, until it is opened or its ``with`` ends."""
        return self.gates.closed()

    # ---- its processes

    def child(self, title: str) -> psutil.Process:
        """The running process that fills a worker slot ("frontdoor 0", "dispatcher 1")."""
        found = [p for p in self.processes() if title_of(p).startswith(f"fastqps: {title}")]
        assert len(found) == 1, f"{title}: {found}\n{self.log()}"
        return found[0]

    def processes(self) -> list[psutil.Process]:
        """The supervisor and all that came of it, as far as they live. Zombies are dead."""
        found = []
        for process in psutil.process_iter():
            try:
                if os.getsid(process.pid) == self.pid and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except (ProcessLookupError, psutil.NoSuchProcess):
                continue
        return found

    def signal(self, number: signal.Signals) -> None:
        """To the supervisor."""
        os.kill(self.pid, number)

    def running(self) -> bool:
        """Whether the supervisor is there. Afterwards nobody else has its pid: it is reaped only by ``wait``."""
        with open(f"/proc/{self.pid}/stat") as file:
            return file.read().rpartition(") ")[2][0] != "Z"

    def wait(self, timeout_s: float = PATIENCE_S) -> int:
        """The supervisor's exit code. AssertionError with the log if it does not end."""
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it has not ended within {timeout_s:g} s:\n{self.log()}") from None
        self._reader.join(PATIENCE_S)
        return code

    def stop(self, timeout_s: float = PATIENCE_S) -> None:
        """Drains, and holds that nothing is left."""
        self.gates.remove()
        if self._process.poll() is None:
            self.signal(signal.SIGTERM)
            code = self.wait(timeout_s)
            assert code == 0, f"exit code {code}:\n{self.log()}"
        self.check_gone()

    def check_gone(self) -> float:
        """Waits until no process is left; the seconds that it took."""
        try:
            return until(lambda: not self.processes(), "no process left")
        except AssertionError:
            raise AssertionError(f"processes are left: {self.processes()}\n{self.log()}") from None

    def kill(self) -> None:
        """Ends what is left, whatever state it is in."""
        self.gates.remove()
        for process in self.processes():
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self._process.wait(PATIENCE_S)

    # ---- its state

    def page(self, path: str, timeout_s: float = PATIENCE_S) -> bytes:
        with urllib.request.urlopen(f"http://{self.admin}{path}", timeout=timeout_s) as answer:
            return bytes(answer.read())

    def post(self, path: str, asked: Any) -> tuple[int, dict[str, Any]]:
        """(status, answer) of an admin page."""
        request = urllib.request.Request(f"http://{self.admin}{path}", data=json.dumps(asked).encode(), method="POST")
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def limits(self) -> list[dict[str, Any]]:
        """What GET /limits says of each model."""
        return list(json.loads(self.page("/limits"))["models"])

    def reload(self, **asked: str) -> tuple[int, dict[str, Any]]:
        """(status, answer) of POST /reload; where it is that the reload still runs, what came of it."""
        status, found = self.post("/reload", asked)
        if status == 202:
            until(lambda: not json.loads(self.page("/reload"))["doing"], f"the reload's end\n{self.log()}", 300)
            found = json.loads(self.page("/reload"))["last"]
            status = 422 if found["outcome"] == "failed" else 200
        return status, found

    def metrics(self) -> dict[str, float]:
        """``read_samples`` of its page."""
        return read_samples(self.page("/metrics").decode())

    def connections(self) -> list[int]:
        """Open client connections of each front door."""
        metrics = self.metrics()
        doors = [key for key in metrics if key.startswith("fastqps_connections{")]
        return [int(metrics[f"fastqps_connections{{{i}}}"]) for i in range(len(doors))]

    def work(self) -> dict[str, float]:
        metrics = self.metrics()
        return {name: metrics[name] for name in GAUGES_OF_WORK}

    def claimed(self, count: int) -> bool:
        """Whether there are so many requests, all of them in a dispatcher's hands."""
        work = self.work()
        return work["fastqps_slots_used"] == count and not work["fastqps_requests_waiting"]

    def until_idle(self, timeout_s: float = PATIENCE_S) -> None:
        """No slot is in use, nothing waits, nothing runs."""
        try:
            until(lambda: not any(self.work().values()), "idle", timeout_s)
        except AssertionError:
            raise AssertionError(f"work is left after {timeout_s} s: {self.work()}\n{self.log()}") from None

    def until_filled(self, worker: str, old: psutil.Process) -> None:
        """Until another process than the old one runs in a worker slot, and serves. The server knows that the old one
        was killed only when it has reaped it."""

        def filled() -> bool:
            there = [p for p in self.processes() if p != old and title_of(p).startswith(f"fastqps: {worker}")]
            return bool(there) and self.ready(worker)

        try:
            until(filled, f"{worker} is filled again")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log()}") from None

    def ready(self, worker: str) -> bool:
        """Whether the process that fills a worker slot ("frontdoor 0") serves."""
        role, index = worker.split()
        return bool(self.metrics()[f"fastqps_process_ready{{{index},{role}}}"])


@contextmanager
def ended_at_last(servers: Sequence[Server]) -> Iterator[None]:
    """Those that are in ``servers`` by the end of the ``with``: they become idle and stop, the newest first.

    After a failure they are killed.
    """
    try:
        yield
        for server in reversed(servers):
            server.until_idle()
            server.stop()
    finally:
        for server in servers:
            server.kill()


def title_of(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return ""


def descriptors(process: psutil.Process) -> list[str]:
    """What the descriptors of a process refer to."""
    found = []
    for entry in Path(f"/proc/{process.pid}/fd").iterdir():
        try:
            found.append(re.sub(r"\[\d+\]$", "", os.readlink(entry)))
        except FileNotFoundError:
            continue
    return sorted(found)
