"""``fastqps serve`` with its real processes: what the supervisor promises to clients."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import socket
import stat
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from raw import PREFACE, SETTINGS, frame
from serving import PATIENCE_S, Server, until
from test_capacity import FILE as CAPACITY
from tries import until_in_time

import fastqps
from fastqps.cli import main
from fastqps.errors import NO_MODEL, OK, USAGE, CallError, ConfigError
from fastqps.models import load_card
from fastqps.supervisor import plan
from fastqps.supervisor.listener import UnixSocket, address, bind, listen, refuse_new
from fastqps.telemetry.capacity import Capacity, read_capacity

LONG = "word " * 250
FLAGS = ("--device=null", "--port=0", "--admin-port=0", "--http-port=off", "--frontdoors=1", "--dispatchers=1")


def test_metrics_count_what_a_client_sent(serve: Callable[..., Server]) -> None:
    running = serve("--frontdoors=2")
    with fastqps.Client(running.address) as client:
        for i in range(20):
            client.predict(f"text {i}")
        client.predict_batch(["a", "b", LONG * 3])
        with pytest.raises(CallError):
            client.predict("x", model="absent")
        answering = [p for p in psutil.Process(running.pid).children() if "fastqps: " in p.cmdline()[0]]
        assert {Path(f"/proc/{p.pid}/timerslack_ns").read_text() for p in answering} == {"1\n"}  # of their loops
        device = "fastqps_stage_duration_seconds_count{device}"
        until(lambda: running.metrics()[device] == 22, "a dispatcher counts when it has answered")
        wanted = {
            "fastqps_requests_total{OK,Predict,minilm}": 20,
            "fastqps_requests_total{OK,PredictBatch,minilm}": 1,
            "fastqps_items_total{OK,minilm}": 22,
            "fastqps_items_total{INVALID_ARGUMENT,minilm}": 1,
            "fastqps_batch_items_sum{minilm}": 22,
        }
        assert wanted.items() <= running.metrics().items() and not any(running.work().values())
        assert sum(running.connections()) >= 1
        doors = [p for p in psutil.Process(running.pid).children() if "frontdoor" in p.cmdline()[0]]
        assert all(door.memory_info().rss < 120 << 20 for door in doors)
        assert not any("libtorch" in place.path for door in doors for place in door.memory_maps())


def test_items_are_in_flight_from_their_arrival_to_their_answer(shared_server: Callable[..., Server]) -> None:
    """The integral grows as long as clients wait: not by what a front door had slept before they came. By the best of
    some tries, as a turn's requests count from its begin, which a machine with other things to do draws out."""
    server = shared_server("--frontdoors=1", "--dispatchers=1")

    def counted_s() -> float:
        return server.metrics()["fastqps_inflight_seconds_total"]

    def attempt() -> str:
        waited_s, before = 0.0, counted_s()
        for _ in range(20):
            time.sleep(0.05)
            began = time.monotonic()
            client.predict("word")
            waited_s += time.monotonic() - began
        counted = counted_s() - before
        return "" if 0 < counted < waited_s else f"{counted} s counted, {waited_s} s waited"

    with fastqps.Client(server.address) as client:
        client.predict("first")
        until_in_time(attempt, tries=5)


def test_serves_without_standard_descriptors() -> None:
    """Its log is nowhere, so its ports are found by asking the system."""
    closed = ["bash", "-c", 'exec "$@" 0<&- 1>&- 2>&-', "bash"]
    flags = ["--device", "null", "--port", "0", "--admin-port", "0", "--http-port", "off"]
    process = subprocess.Popen([*closed, sys.executable, "-m", "fastqps", "serve", "--model", "minilm", *flags])
    found: list[str] = []

    def serves() -> bool:
        found[:] = [address for address in listening(process.pid) if speaks_grpc(address)]
        return bool(found) or process.poll() is not None

    try:
        until(serves, lambda: f"it serves at one of {listening(process.pid)}")
        with fastqps.Client(found[0], timeout_s=PATIENCE_S) as client:
            client.predict("a text")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == OK
    finally:
        process.kill()
        process.wait()


def test_sigterm_while_the_model_is_read(tmp_path: Path) -> None:
    """The first process of a container has no default for it. The model's file is a pipe that nobody fills."""
    os.mkfifo(tmp_path / "config.json")
    flags = ("--device=null", "--port=0", "--admin-port=0", "--http-port=off", f"--model=m={tmp_path}")
    with subprocess.Popen(
        [sys.executable, "-m", "fastqps", "serve", *flags], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            until(lambda: handles(process.pid, signal.SIGTERM), lambda: "it takes the signal")
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == OK
            assert process.stderr
            assert process.stderr.read() == "fastqps: SIGTERM: ended before anything was served\n"
        finally:
            process.kill()


HELD_BACK = """
import os, re, signal, threading, time
from fastqps.cli import serve
signal.signal(signal.SIGTERM, serve._end)
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
os.kill(os.getpid(), signal.SIGTERM)
while not int(re.search(r"SigPnd:\\s*(\\w+)", open("/proc/thread-self/status").read())[1], 16):  # this thread's own
    time.sleep(0.01)
signal.signal(signal.SIGTERM, lambda *_: os._exit(7))
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
"""


def test_sigterm_waits_for_who_takes_it() -> None:
    """Where it is held back, although another thread lets it in."""
    done = subprocess.run([sys.executable, "-c", HELD_BACK], timeout=PATIENCE_S, check=False)
    assert done.returncode == 7


def test_a_lost_terminal_drains_and_any_other_hangup_reloads(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()

    def give() -> None:
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)

    def logged(text: str) -> bool:
        return text in log.read_text()

    log = tmp_path / "log"
    command = [sys.executable, "-m", "fastqps", "serve", "--model=minilm", *FLAGS]
    with log.open("w") as stderr:
        process = subprocess.Popen(command, stderr=stderr, start_new_session=True, preexec_fn=give)
    try:
        until(lambda: logged(" ready: "), log.read_text)
        process.send_signal(signal.SIGHUP)
        until(lambda: logged("is unchanged: nothing to reload"), log.read_text)
        os.close(theirs)
        os.close(ours)
        assert process.wait(PATIENCE_S) == OK
        assert logged("draining")
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("setting", ["--port", "--admin-port"])
def test_port_in_use(setting: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError) as refused:
            bind("127.0.0.1", port, setting)
    assert str(refused.value) == f"port {port} on 127.0.0.1 is in use; choose another with {setting} (0: any free one)"


def test_unix_socket(tmp_path: Path) -> None:
    """A file that a killed server left is replaced; nothing else is touched, also at the end."""
    path = tmp_path / "socket"
    port = f"unix:{path}"

    def refusal() -> str:
        with pytest.raises(ConfigError) as refused:
            bind("", port, "--port")
        return str(refused.value).removeprefix(f"--port {port}: ")

    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))  # nobody listens
    ours = bind("", port, "--port")
    assert path.exists(), "it is replaced when the server listens"
    listen(ours, "--port")
    assert stat.filemode(path.stat().st_mode) == "srw-rw----" and address(ours) == port
    assert refusal() == "another server listens there; choose another path"
    refuse_new(ours)
    assert not path.exists()
    theirs = bind("", port, "--port")
    listen(theirs, "--port")
    ours.close()
    assert path.exists(), "it is another server's"
    theirs.close()
    assert not path.exists()
    path.write_text("a file")
    assert refusal() == "a file is there that is no socket; choose another path"
    path.unlink()
    tmp_path.chmod(0o500)
    if os.getuid():
        assert refusal() == "this user may not create files in that directory"
    port = f"unix:{tmp_path}/none/socket"
    assert refusal() == "this user may not create files in that directory"


def test_of_servers_that_take_one_path_at_once_one_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have looked, and nobody listened, before either does. A killed server has left its file, besides."""
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))
    ours = [bind("", f"unix:{path}", "--port") for _ in range(2)]
    both_have_looked = threading.Barrier(2)
    check = UnixSocket.check

    def check_together(self: UnixSocket) -> None:
        check(self)
        with contextlib.suppress(threading.BrokenBarrierError):
            both_have_looked.wait(timeout=0.5)

    def try_to_listen(sock: socket.socket) -> str:
        try:
            listen(sock, "--port")
        except ConfigError as error:
            return str(error)
        return ""

    monkeypatch.setattr(UnixSocket, "check", check_together)
    with ThreadPoolExecutor(2) as pool:
        found = sorted(pool.map(try_to_listen, ours))
    assert found == ["", f"--port unix:{path}: another server listens there; choose another path"]
    for sock in ours:
        sock.close()
    assert not path.exists()


def test_admin_port_taken_between_bind_and_listen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As by another server that was started at the same time."""
    file = tmp_path / "capacity.json"
    file.write_text(json.dumps({**CAPACITY, "device": "null"}))
    with bind("127.0.0.1", 0, "--admin-port") as taken:

        def read_when_taken(path: Path) -> Capacity:
            taken.listen()
            return read_capacity(path)

        monkeypatch.setattr(plan, "read_capacity", read_when_taken)
        port = taken.getsockname()[1]
        flags = (*FLAGS, f"--admin-port={port}", f"--capacity={file}", "--model=minilm")
        assert main(["serve", *flags]) == USAGE
    log = capfd.readouterr().err
    message = f"port {port} on 127.0.0.1 is in use; choose another with --admin-port (0: any free one)"
    assert log.endswith(f" supervisor: {message}\n") and "Traceback" not in log


def handles(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler for a signal."""
    caught = re.search(r"^SigCgt:\s*(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return caught is not None and bool(int(caught[1], 16) >> (number - 1) & 1)


def test_too_few_files_is_said_at_once() -> None:
    limited = ["bash", "-c", 'ulimit -n 40; exec "$@"', "bash", sys.executable, "-m", "fastqps", "serve"]
    flags = ["--device", "null", "--model", "minilm", "--port", "0", "--admin-port", "0", "--http-port", "off"]
    found = subprocess.run([*limited, *flags], capture_output=True, text=True, timeout=PATIENCE_S)
    assert (found.returncode, found.stderr.count("\n")) == (USAGE, 1), found.stderr
    assert "ulimit -n" in found.stderr


def test_a_burst_of_clients_is_let_in_at_once(shared_server: Callable[..., Server]) -> None:
    """By several front doors as fast as by one: whoever is ahead wakes who is behind."""

    def burst(address: tuple[str, int]) -> str:
        with contextlib.ExitStack() as all:
            clients = [all.enter_context(socket.create_connection(address, PATIENCE_S)) for _ in range(300)]
            for client in clients:  # until a client says what it speaks, a server says nothing
                client.sendall(PREFACE + frame(SETTINGS, 0, 0))
            start = time.monotonic()
            for client in clients:
                assert client.recv(9)  # the server's SETTINGS
            taken_s = time.monotonic() - start
        return f"{taken_s:.1f} s" if taken_s >= 2 else ""

    host, port = shared_server("--frontdoors=2", "--dispatchers=1").address.rsplit(":", 1)
    until_in_time(lambda: burst((host, int(port))))


def listening(pid: int) -> list[str]:
    """Where a process listens."""
    sockets = psutil.Process(pid).net_connections("tcp")
    return [f"127.0.0.1:{s.laddr.port}" for s in sockets if s.status == psutil.CONN_LISTEN]


def speaks_grpc(address: str) -> bool:
    with fastqps.Client(address) as client:
        return client.ready(timeout_s=5.0)


def test_a_tokenizer_that_cannot_tokenize_is_said_at_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = Path(load_card("minilm").path)
    for file in model.iterdir():
        (tmp_path / file.name).symlink_to(file)
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "tokenizer.json").write_text('{"model": 3}')
    assert main(["serve", "--model", f"torn={tmp_path}", *FLAGS]) == NO_MODEL
    assert "tokenizer.json cannot be used" in capsys.readouterr().err
