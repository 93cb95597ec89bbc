"""The supervisor: starting, watching, restarting, draining, and leaving nothing behind. With fake children."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import errno
import fcntl
import json
import os
import pty
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest
from paths import ROOT, SUPPORT, python_path
from ports import free_port
from serving import PATIENCE_S, until
from test_capacity import FILE as CAPACITY
from tries import until_in_time

from fastqps.process.children import DoorSettings, write_settings
from fastqps.supervisor.listener import bind
from fastqps.supervisor.log import LINES_WAITING_MAX, Log
from fastqps.supervisor.workers.child import Child
from fastqps.supervisor.workers.frontdoor_slot import FrontDoorSlot
from fastqps.supervisor.workers.progress import (
    SILENCE_MAX_NS,
    STOPPED_MAX_NS,
    TICK_NS,
    OwnTime,
    Watched,
    is_stopped,
)
from fastqps.supervisor.workers.restarts import RESTARTS_MAX, WINDOW_S, RestartBudget
from fastqps.terminal import LINE_CHARS_MAX

S = 10**9
AT_ONCE = "restarts.DELAY_FIRST_S=0.01"  # FAKE_LIMITS: whatever dies is started again


class Server:
    """``fastqps serve`` with fake children in a process of its own, and its log."""

    def __init__(self, *flags: str, prepare: Callable[[], None] | None = None, **environment: str) -> None:
        flags = ("--device", "null", "--slots", "16", "--port", "0", "--admin-port", "0", "--http-port", "off", *flags)
        self.process = subprocess.Popen(
            [sys.executable, str(SUPPORT / "servers/fake_server.py"), *flags],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": python_path(), **environment},
            start_new_session=prepare is not None,
            preexec_fn=prepare,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr
        self.lines.extend(self.process.stderr)

    def log(self) -> str:
        return "".join(self.lines)

    def wait_line(self, text: str, count: int = 1) -> str:
        def found() -> list[str]:
            return [line for line in [*self.lines] if text in line]

        until(lambda: len(found()) >= count, lambda: f"{text!r} in\n{self.log()}")
        return found()[count - 1]

    def wait_ready(self) -> Server:
        self.wait_line(" ready: ")
        return self

    def wait_end(self) -> int:
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code

    def address(self) -> tuple[str, int]:
        host, _, port = self.wait_line(" ready: ").split(" at ")[1].split(",")[0].rpartition(":")
        return host, int(port)

    def get(self, path: str) -> tuple[int, Any]:
        admin = self.wait_line(" ready: ").split("admin ")[1].split(" ")[0]
        try:
            with urllib.request.urlopen(admin + path, timeout=PATIENCE_S) as answer:
                body, status = answer.read(), answer.status
        except urllib.error.HTTPError as error:
            body, status = error.read(), error.code
        return status, json.loads(body) if body.startswith(b"{") else body.decode()

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def child(self, title: str) -> psutil.Process:
        def find() -> list[psutil.Process]:
            found = []
            for process in self.children():
                with contextlib.suppress(psutil.NoSuchProcess):
                    if process.cmdline()[:1] == [f"fastqps: {title}"]:
                        found.append(process)
            return found

        until(lambda: len(find()) == 1, lambda: f"one {title} in {self.children()}\n{self.log()}")
        return find()[0]


def gone(process: psutil.Process) -> bool:
    """It has ended; whether somebody has asked for its exit code yet is not our concern."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    return True


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Server]]:
    monkeypatch.chdir(tmp_path)
    servers: list[Server] = []

    def start(*flags: str, **more: Any) -> Server:
        servers.append(Server(*flags, **more))
        return servers[-1]

    yield start
    for server in servers:
        left = [] if server.process.poll() is not None else server.children()
        if server.process.poll() is None:
            server.process.kill()
        server.process.wait(PATIENCE_S)
        until(lambda left=left: all(map(gone, left)), server.log)


def test_life_of_a_server(serve: Callable[..., Server]) -> None:
    server = serve("--frontdoors", "2", "--dispatchers", "2").wait_ready()
    assert server.get("/readyz") == (200, {"ready": True, "reasons": [], "degraded": []})
    assert server.get("/livez")[0] == 200
    titles = sorted(process.cmdline()[0] for process in server.children())
    names = ("dispatcher 0 (null)", "dispatcher 1 (null)", "frontdoor 0", "frontdoor 1")
    assert titles == [f"fastqps: {name}" for name in names]
    assert psutil.Process(server.process.pid).cmdline()[0] == "fastqps: supervisor"
    assert f"pid {server.process.pid})" in server.wait_line(" ready: ")  # for kill -HUP
    metrics = server.get("/metrics")[1]
    assert 'fastqps_process_ready{index="1",role="frontdoor"} 1.0' in metrics
    assert 'fastqps_restarts_total{role="dispatcher"} 0.0' in metrics
    assert "fastqps_slots 32.0" in metrics
    children, address = server.children(), server.address()
    socket.create_connection(address, timeout=PATIENCE_S).close()  # the port listens
    server.process.send_signal(signal.SIGTERM)
    assert server.wait_end() == 0, server.log()
    assert server.lines[-1].endswith("supervisor: stopped\n")
    assert all(map(gone, children))
    assert "phase draining" in server.log()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=PATIENCE_S)
    assert "ready" not in "".join(line for line in server.lines[: server.lines.index(server.wait_line(" ready: "))])


def test_killed_children_come_back(serve: Callable[..., Server]) -> None:
    """Within two seconds, or what two starts of the whole server take where that is more."""

    def attempt() -> str:
        began = time.monotonic()
        server = serve("--dispatchers", "2").wait_ready()
        limit_s = max(2.0, 2 * (time.monotonic() - began))
        back_s = back_after_kills(server)
        return "" if back_s < limit_s else f"{back_s:.1f} s"

    until_in_time(attempt, tries=3)


def back_after_kills(server: Server) -> float:
    """Kills a dispatcher and the front door; the seconds until all is as before."""
    server.get("/readyz")
    files = psutil.Process(server.process.pid).num_fds()
    killed = time.monotonic()
    server.child("dispatcher 1 (null)").kill()
    server.child("frontdoor 0").kill()
    server.wait_line("dispatcher 1 (null) (pid", 1)
    server.wait_line("was ended by SIGKILL", 2)
    server.wait_line("started dispatcher 1 (null)", 2)
    server.wait_line("started frontdoor 0", 2)
    until(lambda: server.get("/readyz")[1] == {"ready": True, "reasons": [], "degraded": []}, server.log)
    back_s = time.monotonic() - killed
    assert "killing" not in server.log()  # their ends were seen, not that they were silent
    until(lambda: psutil.Process(server.process.pid).num_fds() <= files, lambda: f"{files} descriptors again")
    metrics = server.get("/metrics")[1]
    assert 'fastqps_restarts_total{role="dispatcher"} 1.0' in metrics
    assert 'fastqps_restarts_total{role="frontdoor"} 1.0' in metrics
    return back_s


@pytest.mark.parametrize("title", ["dispatcher 0 (null)", "frontdoor 0"])
def test_stopped_child_is_killed_and_comes_back(serve: Callable[..., Server], title: str) -> None:
    server = serve("--dispatchers", "1").wait_ready()
    server.child(title).suspend()
    killed = server.wait_line(f"killing {title}")
    silent_s = float(killed.split("no sign of life for ")[1].split(" s")[0])  # as the supervisor charges it
    assert 1 <= silent_s < 1.5
    server.wait_line(f"started {title}", 2)
    until(lambda: server.get("/readyz")[0] == 200, server.log)


def test_killed_child_that_cannot_be_reaped(serve: Callable[..., Server], tmp_path: Path) -> None:
    """It is killed once, serves no more, and in the end only a restart of the server would help, unless it ends."""
    gate = tmp_path / "gate"
    limits = f"{AT_ONCE},slot.REAP_MAX_S=0.2"
    server = serve("--dispatchers", "1", FAKE_DISPATCHER="held", FAKE_GATE=str(gate), FAKE_LIMITS=limits).wait_ready()
    server.child("dispatcher 0 (null)").send_signal(signal.SIGUSR2)
    until(lambda: "killing dispatcher 0" in server.log() or "cannot hold" in server.log(), server.log)
    if "cannot hold" in server.log():
        pytest.skip("ptrace is not allowed here")
    state = "dispatcher 0 (null) stays down: it was killed and does not end: a driver or a debugger holds it"
    unready = {"ready": False, "reasons": ["no dispatcher of minilm is ready"], "degraded": [state]}
    until(lambda: server.get("/readyz") == (503, unready), server.log)
    assert server.get("/livez")[0] == 503
    gate.touch()
    server.wait_line("started dispatcher 0 (null)", 2)
    until(lambda: server.get("/readyz")[0] == 200, server.log)
    assert server.get("/livez")[0] == 200
    assert server.log().count("killing") == 1


def test_stopped_supervisor_blames_nobody(serve: Callable[..., Server]) -> None:
    server = serve("--dispatchers", "2").wait_ready()
    server.process.send_signal(signal.SIGSTOP)
    children = psutil.Process(server.process.pid).children()
    children[0].suspend()  # silent for as long as the supervisor, and awake again with it
    time.sleep(1.5)
    children[0].resume()
    server.process.send_signal(signal.SIGCONT)
    time.sleep(1.0)
    assert server.get("/readyz")[0] == 200
    assert "killing" not in server.log()


def test_supervisor_killed(serve: Callable[..., Server]) -> None:
    """Its children end at once, and the port is free."""

    def attempt() -> str:
        port = free_port()
        server = serve("--port", str(port), "--dispatchers", "2", "--frontdoors", "2").wait_ready()
        children = server.children()
        assert len(children) == 4
        server.process.kill()
        left_s = until(lambda: all(map(gone, children)), lambda: str(children))
        again = serve("--port", str(port), "--dispatchers", "1").wait_ready()
        assert again.address()[1] == port
        return "" if left_s < 1 else f"{left_s:.1f} s"

    until_in_time(attempt, tries=3)


def test_child_started_by_somebody_else_ends_at_once() -> None:
    known = {"title": "frontdoor 0", "parent_pid": 1, "cpus": ()}
    settings = DoorSettings(**{field.name: known.get(field.name, 0) for field in dataclasses.fields(DoorSettings)})
    command = [sys.executable, "-m", "fastqps.process.launch", "fastqps.absent", write_settings(settings)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize("setting", ["--port", "--admin-port"])
def test_port_in_use(serve: Callable[..., Server], setting: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = serve(setting, str(port))
        assert server.wait_end() == 2
    message = f"port {port} on 127.0.0.1 is in use; choose another with {setting} (0: any free one)"
    assert server.lines == [f"fastqps: {message}\n"]


def test_port_taken_between_bind_and_ready(serve: Callable[..., Server], tmp_path: Path) -> None:
    taken = bind("127.0.0.1", 0, "--port")
    port = taken.getsockname()[1]
    with taken:
        gate = tmp_path / "gate"
        server = serve("--port", str(port), FAKE_DISPATCHER="waits", FAKE_GATE=str(gate))
        server.wait_line("starting minilm")
        taken.listen()
        gate.touch()
        assert server.wait_end() == 2
    assert f"port {port} on 127.0.0.1 is in use" in server.log()


def test_admin_port_taken_between_bind_and_listen(serve: Callable[..., Server], tmp_path: Path) -> None:
    """As by another server that was started at the same time."""
    pipe = tmp_path / "capacity"
    os.mkfifo(pipe)
    writers: list[int] = []

    def reads_it() -> bool:
        with contextlib.suppress(OSError):  # nobody does
            writers.append(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        return bool(writers)

    with bind("127.0.0.1", 0, "--admin-port") as taken:
        port = taken.getsockname()[1]
        server = serve("--admin-port", str(port), "--capacity", str(pipe))
        until(reads_it, server.log)  # its ports are bound
        taken.listen()
        os.write(writers[0], json.dumps({**CAPACITY, "device": "null"}).encode())
        os.close(writers[0])
        assert server.wait_end() == 2
    message = f"port {port} on 127.0.0.1 is in use; choose another with --admin-port (0: any free one)"
    assert server.lines[-1].endswith(f" supervisor: {message}\n") and "Traceback" not in server.log()


def test_model_that_cannot_be_loaded(serve: Callable[..., Server]) -> None:
    server = serve(FAKE_DISPATCHER="no-model")
    assert server.wait_end() == 4
    assert "dispatcher 0 (null) cannot start: the weights are torn" in server.log()


def test_missing_model_and_memory(serve: Callable[..., Server]) -> None:
    assert serve("--model", "/nowhere").wait_end() == 4
    twice = serve("--model", "minilm", "--model", "minilm")
    assert twice.wait_end() == 2
    assert "two models are named 'minilm'" in twice.log()


def test_a_child_that_nobody_can_watch_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, flags: int = 0) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async def start() -> None:
        files, before = psutil.Process().num_fds(), psutil.Process().children()
        with pytest.raises(OSError, match="Too many open files"):
            Child([sys.executable, "-c", "import time; time.sleep(600)"], (), os.environ, print)
        assert psutil.Process().children() == before and psutil.Process().num_fds() == files

    monkeypatch.setattr(os, "pidfd_open", refuse)
    monkeypatch.setattr("fastqps.supervisor.workers.child.UNDO_MAX_S", PATIENCE_S)
    asyncio.run(start())


def test_why_the_system_gives_no_process_is_said(serve: Callable[..., Server]) -> None:
    limits = f"{AT_ONCE},restarts.DELAY_MAX_S=0.1"
    server = serve("--dispatchers", "1", FAKE_KERNEL="old", FAKE_LIMITS=limits)
    assert server.wait_end() == 1
    assert " does not start: [Errno 38] Function not implemented\n" in server.log()


def test_a_load_that_cannot_be_measured_for_long_ends_the_server(serve: Callable[..., Server]) -> None:
    """Who balances or scales by it would go on with what was."""
    server = serve("--dispatchers", "1", FAKE_METER="broken", FAKE_LIMITS="pages.FAILING_MAX_S=0.3")
    assert server.wait_end() == 1
    assert server.log().count("the load cannot be measured: TypeError") == 1
    assert "broken: TypeError" in server.log() and server.lines[-1].endswith("supervisor: stopped\n")
    assert "Traceback" not in server.log() and "never retrieved" not in server.log()


def test_a_child_that_does_not_end_is_named(serve: Callable[..., Server]) -> None:
    server = serve("--dispatchers", "1", FAKE_DISPATCHER="stays", FAKE_LIMITS="server.REAP_MAX_S=0").wait_ready()
    server.process.send_signal(signal.SIGTERM)
    assert server.wait_end() == 0
    assert "stopped; not ended: dispatcher 0 (null) (pid " in server.lines[-1], server.log()


@pytest.mark.parametrize("window_s", [600, 0.01])
def test_crash_loop_at_start(serve: Callable[..., Server], window_s: float) -> None:
    """Also where its starts take so long that no two deaths come within the window of the budget."""
    limits = f"{AT_ONCE},restarts.DELAY_MAX_S=0.1,restarts.WINDOW_S={window_s}"
    server = serve("--dispatchers", "1", FAKE_DISPATCHER="crash", FAKE_LIMITS=limits)
    assert server.wait_end() == 1
    assert server.log().count("was ended by SIGSEGV") == RESTARTS_MAX + 1
    assert "dispatcher 0 (null) does not start: about to crash" in server.log()


def test_crash_loop_while_serving(serve: Callable[..., Server]) -> None:
    server = serve("--dispatchers", "1", FAKE_LIMITS=AT_ONCE).wait_ready()
    for death in range(RESTARTS_MAX + 1):
        until(lambda: server.get("/readyz")[0] == 200, server.log)
        server.child("dispatcher 0 (null)").kill()
        server.wait_line("was ended by SIGKILL", death + 1)
    server.wait_line("dispatcher 0 (null) stays down: died too often")
    status, ready = server.get("/readyz")
    assert (status, ready["reasons"]) == (503, ["no dispatcher of minilm is ready"])
    assert ready["degraded"] == ["dispatcher 0 (null) stays down: died too often"]
    reasons = ["every dispatcher of minilm stays down"]
    assert server.get("/livez") == (503, {"live": False, "reasons": reasons})
    server.process.send_signal(signal.SIGTERM)
    assert server.wait_end() == 0


@pytest.mark.parametrize(("behaviour", "timeout", "least_s"), [("stuck", "500ms", 0.5), ("unclean", "600s", 0.0)])
def test_incomplete_drain(serve: Callable[..., Server], behaviour: str, timeout: str, least_s: float) -> None:
    """Who is stuck has all the time that there is; who has ended is not waited for."""
    server = serve("--drain-timeout", timeout, FAKE_DOOR=behaviour).wait_ready()
    children = server.children()
    asked = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    assert server.wait_end() == 5
    assert time.monotonic() - asked > least_s
    assert all(map(gone, children))


def test_second_signal_stops_at_once(serve: Callable[..., Server]) -> None:
    def attempt() -> str:
        server = serve("--drain-timeout", "600s", FAKE_DOOR="stuck").wait_ready()
        server.process.send_signal(signal.SIGINT)
        server.wait_line("draining, at most 600 s")
        asked = time.monotonic()
        server.process.send_signal(signal.SIGINT)
        assert server.wait_end() == 5
        took_s = time.monotonic() - asked
        return "" if took_s < 2 else f"{took_s:.1f} s"

    until_in_time(attempt, tries=3)


def test_sighup_reads_the_models_again(serve: Callable[..., Server]) -> None:
    server = serve(prepare=lambda: None).wait_ready()
    for count in (1, 2):
        server.process.send_signal(signal.SIGHUP)
        server.wait_line("is unchanged: nothing to reload", count)
    assert server.get("/readyz")[0] == 200


@contextlib.contextmanager
def terminal(*, nohup: bool) -> Iterator[tuple[Callable[[], None], Callable[[], None]]]:
    """(what gives a new process this terminal, what takes it away)."""
    ours, theirs = pty.openpty()

    def give() -> None:
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGHUP, signal.SIG_IGN if nohup else signal.SIG_DFL)

    def take() -> None:
        os.close(theirs)
        os.close(ours)

    yield give, take


def test_lost_terminal_drains(serve: Callable[..., Server]) -> None:
    with terminal(nohup=False) as (give, take):
        server = serve(prepare=give).wait_ready()
        server.process.send_signal(signal.SIGHUP)  # from anybody else
        server.wait_line("is unchanged: nothing to reload")
        take()
        assert server.wait_end() == 0
    assert "draining" in server.log()


def test_lost_terminal_under_nohup(serve: Callable[..., Server]) -> None:
    with terminal(nohup=True) as (give, take):
        server = serve(prepare=give).wait_ready()
        take()
    server.wait_line("the terminal is gone")
    server.process.send_signal(signal.SIGHUP)
    server.wait_line("is unchanged: nothing to reload")
    assert "draining" not in server.log()


def test_signal_during_start(serve: Callable[..., Server]) -> None:
    server = serve(FAKE_DISPATCHER="waits")
    server.wait_line("started frontdoor 0")
    server.process.send_signal(signal.SIGTERM)
    assert server.wait_end() == 0
    assert " ready: " not in server.log()


def test_nobody_reads_the_log() -> None:
    reader, writer = os.pipe()
    log = Log(writer)
    for i in range(3 * LINES_WAITING_MAX):
        log.event("test", f"{i} {'x' * 100}")  # far more than the pipe holds: it must not block
    lines = os.read(reader, 1 << 16).decode().splitlines()
    assert [line.split(" ")[2] for line in lines[:3]] == ["0", "1", "2"]
    os.set_blocking(reader, False)
    text = b""

    def read_all() -> bool:
        nonlocal text
        with contextlib.suppress(BlockingIOError):
            while data := os.read(reader, 1 << 16):
                text += data
        log.event("test", "after")
        return b"test: after" in text

    until(read_all, lambda: text[-200:].decode())
    assert b"log lines were dropped" in text
    log.close()


def test_a_line_of_the_log_is_one_line() -> None:
    """Whatever a client has made part of it, a path to reload for example."""
    reader, writer = os.pipe()
    log = Log(writer)
    log.event("test", "from /a\n09:00 supervisor: ready\x1b[2J\x9b\ttab é")
    log.event("test", "x" * 1_000_000)
    log.close()
    os.close(writer)
    with open(reader, encoding="utf-8", newline="") as stream:
        first, second = stream.read().splitlines()
    assert first.endswith("test: from /a\\n09:00 supervisor: ready\\x1b[2J\\x9b\\ttab é")
    assert second.endswith("x…") and len(second) < LINE_CHARS_MAX + 30


def test_restart_budget() -> None:
    budget = RestartBudget()
    assert [budget.next_delay_s(float(t)) for t in range(6)] == [0.0, 0.25, 0.5, 1.0, 2.0, None]
    later = RestartBudget()
    assert [later.next_delay_s(t * WINDOW_S) for t in range(20)] == [0.0] * 20
    few = RestartBudget(1)
    assert [few.next_delay_s(0.0) for _ in range(3)] == [0.0, None, None]
    steady = RestartBudget()
    assert None not in [steady.next_delay_s(t * WINDOW_S / RESTARTS_MAX) for t in range(100)]


def test_service_is_counted_in_full() -> None:
    """By a supervisor that seldom gets to look, too: else a minute of service would last ever longer, and who dies now
    and then would stay down. What it takes to start is none."""
    line = SimpleNamespace(heartbeat_ns=0, ready=False, turn_started_ns=0)
    segment = SimpleNamespace(door=lambda index: line)
    nothing: Any = None
    worker = FrontDoorSlot(0, nothing, cast(Any, SimpleNamespace(segment=segment)), nothing)
    start_ns = 1000 * S
    for _ in range(2):
        worker.child = cast(Any, SimpleNamespace(exited=SimpleNamespace(done=lambda: False), pid=1, killed=False))
        worker.watched = Watched(start_ns)
        for after_s, ready in ((20, False), (21, True), (24, True), (30, True)):
            line.heartbeat_ns, line.ready = start_ns + after_s * S, ready
            assert worker.overdue(start_ns + after_s * S, TICK_NS, 30 * S) is None
        start_ns += 300 * S  # it has died long before
    assert worker.served_s == 20


def check(watched: Watched, now_ns: int, charge_ns: int = TICK_NS, **line: Any) -> str | None:
    state = {"heartbeat_ns": now_ns, "ready": True, "step_started_ns": 0, "step_timeout_ns": 30 * S, **line}
    state.setdefault("is_stopped", lambda: False)
    return watched.overdue(charge_ns, **state)


def reason_after(seconds: float, **line: Any) -> str | None:
    """Why a process must be killed that was so all the time."""
    watched = Watched(0)
    return [check(watched, tick * TICK_NS, **line) for tick in range(1, round(seconds * S / TICK_NS) + 1)][-1]


@pytest.mark.parametrize(("stopped", "limit_ns"), [(True, STOPPED_MAX_NS), (False, SILENCE_MAX_NS)])
def test_silence(stopped: bool, limit_ns: int) -> None:
    """A stopped process is seen within a second; one that only starves has more time."""
    watched, beat = Watched(0), 5 * S
    reasons = [
        check(watched, beat + tick * TICK_NS, heartbeat_ns=beat, is_stopped=lambda: stopped) for tick in range(60)
    ]
    first = next(i for i, reason in enumerate(reasons) if reason)
    assert limit_ns <= first * TICK_NS <= limit_ns + 2 * TICK_NS
    assert "no sign of life" in str(reasons[first])
    assert check(watched, beat + 8 * S, heartbeat_ns=beat + 7 * S) is None  # it lives again


def test_is_stopped() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert not is_stopped(child.pid)
        child.send_signal(signal.SIGSTOP)
        until(lambda: is_stopped(child.pid), lambda: "it is stopped")
    finally:
        child.kill()
        child.wait()
    assert not is_stopped(child.pid)


def test_own_delay_is_not_charged() -> None:
    own = OwnTime(0)
    assert own.tick(TICK_NS) == TICK_NS
    assert own.tick(10 * S) <= 2 * TICK_NS  # we slept for ten seconds; so perhaps did everybody
    watched, beat = Watched(0), 5 * S
    assert check(watched, beat, heartbeat_ns=beat) is None
    assert check(watched, beat + 10 * S, own.tick(20 * S), heartbeat_ns=beat) is None


@pytest.mark.parametrize(
    ("seconds", "line", "reason"),
    [
        (2, {"heartbeat_ns": 0, "ready": False}, None),  # imports
        (60.1, {"heartbeat_ns": 0, "ready": False}, "no sign of life in 60 s after its start"),
        (120, {"ready": False}, None),  # loads a large model
        (600.1, {"ready": False}, "was not ready in 600 s"),
        (30, {"step_started_ns": 7}, None),  # a legal step may take seconds
        (31, {"step_started_ns": 7}, "its step takes longer than --step-timeout: 30.9 s"),
        (100, {"step_started_ns": 7, "step_timeout_ns": 0}, None),
    ],
)
def test_overdue(seconds: float, line: dict[str, Any], reason: str | None) -> None:
    found = reason_after(seconds, **line)
    assert (found is None) if reason is None else (reason in str(found)), found


def test_each_step_has_its_own_time() -> None:
    watched = Watched(0)
    for tick in range(1, 1000):
        assert check(watched, tick * TICK_NS, step_started_ns=1 + tick // 200) is None


@pytest.mark.parametrize("line", [{"step_started_ns": 7}, {"ready": False}, {"heartbeat_ns": 0, "ready": False}])
def test_a_machine_that_stood_still(line: dict[str, Any]) -> None:
    """A virtual one that was paused, a frozen container: nobody got on, and nobody is to blame."""
    watched, own = Watched(0), OwnTime(0)
    for now_ns in (TICK_NS, 2 * TICK_NS, 1000 * S, 1000 * S + TICK_NS):
        assert check(watched, now_ns, own.tick(now_ns), **line) is None
