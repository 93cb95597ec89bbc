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
import subprocess
import sys
import termios
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from raw import PREFACE, SETTINGS, frame
from serving import PATIENCE_S, Server, until
from test_capacity import FILE as CAPACITY
from tries import until_in_time

import fastqps
from fastqps.errors import NOT_DRAINED, OK, USAGE, CallError, ConfigError, Unavailable
from fastqps.models import load_card
from fastqps.process.server_process import ServerProcess
from fastqps.supervisor.listener import bind

LONG = "word " * 250
FLAGS = ("--device=null", "--port=0", "--admin-port=0", "--http-port=off", "--frontdoors=1", "--dispatchers=1")


def gone(process: psutil.Process) -> bool:
    """It has ended; whether somebody has asked for its exit code yet is not our concern."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    return True


@contextlib.contextmanager
def server(*flags: str) -> Iterator[ServerProcess]:
    with ServerProcess(*flags) as running:
        children = psutil.Process(running.pid).children(recursive=True)
        yield running
    until(lambda: all(map(gone, children)), lambda: str(children))


def metrics(running: ServerProcess) -> dict[str, float]:
    with urllib.request.urlopen(f"{running.admin}/metrics", timeout=PATIENCE_S) as page:
        lines = [line for line in page.read().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_metrics_count_what_a_client_sent() -> None:
    with server("--device", "null", "--frontdoors", "2") as running, fastqps.Client(running.address) as client:
        for i in range(20):
            client.predict(f"text {i}")
        client.predict_batch(["a", "b", LONG * 3])
        with pytest.raises(CallError):
            client.predict("x", model="absent")
        body = json.dumps({"text": "hello"}).encode()
        with urllib.request.urlopen(f"{running.admin}/predict", data=body, timeout=PATIENCE_S) as page:
            assert len(json.load(page)["embedding"]) == 384
        answering = [p for p in psutil.Process(running.pid).children() if "fastqps: " in p.cmdline()[0]]
        assert {Path(f"/proc/{p.pid}/timerslack_ns").read_text() for p in answering} == {"1\n"}  # of their loops
        device = 'fastqps_stage_duration_seconds_count{stage="device"}'
        # Its counts a dispatcher makes when it has answered.
        until(lambda: metrics(running)[device] == 23, lambda: f"{metrics(running)[device]} steps' items are counted")
        found = metrics(running)
        assert found['fastqps_requests_total{code="OK",method="Predict",model="minilm"}'] == 20
        assert found['fastqps_requests_total{code="OK",method="PredictBatch",model="minilm"}'] == 2
        assert found['fastqps_items_total{code="OK",model="minilm"}'] == 23
        assert found['fastqps_items_total{code="INVALID_ARGUMENT",model="minilm"}'] == 1
        assert found['fastqps_batch_items_sum{model="minilm"}'] == 23
        assert found["fastqps_requests_running"] == found["fastqps_slots_used"] == 0
        assert found['fastqps_requests_waiting{model="minilm"}'] == 0
        connections = [value for name, value in found.items() if name.startswith("fastqps_connections{")]
        assert sum(connections) >= 2  # the client's and the admin page's
        doors = [p for p in psutil.Process(running.pid).children() if "frontdoor" in p.cmdline()[0]]
        assert all(door.memory_info().rss < 120 << 20 for door in doors)
        assert not any("libtorch" in place.path for door in doors for place in door.memory_maps())


def test_items_are_in_flight_from_their_arrival_to_their_answer(serve: Callable[..., Server]) -> None:
    """The integral grows as long as clients wait: not by what a front door had slept before they came. By the best of
    some tries, as a turn's requests count from its begin, which a machine with other things to do draws out."""
    server = serve("--frontdoors=1", "--dispatchers=1")

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


def test_drain_finishes_what_is_open(serve: Callable[..., Server]) -> None:
    running = serve("--dispatchers=1", "--drain-timeout=600s", echo=True)
    host, port = running.address.split(":")
    answers: list[object] = []

    def ask(client: fastqps.Client, items: list[list[int]]) -> None:
        try:
            answers.extend(client.predict_batch(items))
        except CallError as error:
            answers.append(error)

    def refused() -> bool:
        try:
            socket.create_connection((host, int(port)), timeout=PATIENCE_S).close()
        except ConnectionRefusedError:
            return True
        return False

    with running.gate() as gate, fastqps.Client(running.address, timeout_s=PATIENCE_S) as client:
        asking = threading.Thread(target=ask, args=(client, [[gate.id, 5]] * 64))
        asking.start()
        until(lambda: running.work()["fastqps_slots_used"] == 64, lambda: "64 items in slots")
        for child in psutil.Process(running.pid).children():  # as a service manager does, which signals everybody
            child.terminate()
        running.signal(signal.SIGTERM)
        until(refused, lambda: "new clients are refused")
        assert answers == []
        gate.open()
        asking.join()
    assert [type(answer).__name__ for answer in answers] == ["Prediction"] * 64
    assert running.wait() == OK  # and long before its time-out


def test_drain_that_takes_too_long(serve: Callable[..., Server]) -> None:
    running = serve("--dispatchers=1", "--drain-timeout=50ms", "--max-batch-items=8", echo=True)
    failures: list[CallError] = []

    def ask(client: fastqps.Client, items: list[list[int]]) -> None:
        try:
            client.predict_batch(items)
        except CallError as error:
            failures.append(error)

    with running.gate() as gate, fastqps.Client(running.address, timeout_s=PATIENCE_S) as client:
        asking = threading.Thread(target=ask, args=(client, [[gate.id, 5]] * 250))
        asking.start()
        until(lambda: running.work()["fastqps_slots_used"] > 200, lambda: "items in slots")
        running.signal(signal.SIGTERM)
        assert running.wait() == NOT_DRAINED
        asking.join()
    assert [type(failure) for failure in failures] == [Unavailable]


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


def test_admin_port_taken_between_bind_and_listen(tmp_path: Path) -> None:
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
        flags = (*FLAGS, f"--admin-port={port}", f"--capacity={pipe}", "--model=minilm")
        command = [sys.executable, "-m", "fastqps", "serve", *flags]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        until(reads_it, "its ports are bound")
        taken.listen()
        os.write(writers[0], json.dumps({**CAPACITY, "device": "null"}).encode())
        os.close(writers[0])
        _, log = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == USAGE and "Traceback" not in log
    message = f"port {port} on 127.0.0.1 is in use; choose another with --admin-port (0: any free one)"
    assert log.endswith(f" supervisor: {message}\n")


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


def test_a_burst_of_clients_is_let_in_at_once() -> None:
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

    with server("--device", "null", "--frontdoors", "2", "--dispatchers", "1") as running:
        host, port = running.address.rsplit(":", 1)
        until_in_time(lambda: burst((host, int(port))))


def listening(pid: int) -> list[str]:
    """Where a process listens."""
    sockets = psutil.Process(pid).net_connections("tcp")
    return [f"127.0.0.1:{s.laddr.port}" for s in sockets if s.status == psutil.CONN_LISTEN]


def speaks_grpc(address: str) -> bool:
    with fastqps.Client(address) as client:
        return client.ready(timeout_s=5.0)


def test_a_tokenizer_that_cannot_tokenize_is_said_at_start(tmp_path: Path) -> None:
    model = Path(load_card("minilm").path)
    for file in model.iterdir():
        (tmp_path / file.name).symlink_to(file)
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "tokenizer.json").write_text('{"model": 3}')
    command = [sys.executable, "-m", "fastqps", "serve", "--model", f"torn={tmp_path}", "--device", "null"]
    flags = ["--port", "0", "--admin-port", "0", "--http-port", "off"]
    ended = subprocess.run([*command, *flags], capture_output=True, text=True, timeout=PATIENCE_S)
    assert ended.returncode == 4
    assert "tokenizer.json cannot be used" in ended.stderr and "Traceback" not in ended.stderr
