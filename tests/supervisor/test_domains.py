"""Dispatchers that share a GPU: under MPS a fault of one is a fault of all, else of nobody else. With fake children."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from fake_mps.path import FAKE_MPS_PATH
from nightly import nightly
from serving import until
from test_supervisor import AT_ONCE, Server, gone

from fastqps.supervisor.gpu.failure_domain import FAULTS_MAX

READY = {"ready": True, "reasons": [], "degraded": []}


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Server]]:
    """A server on GPUs of the tests', whose temporary files and caches are its own; nothing of them is left."""
    monkeypatch.chdir(tmp_path)
    temporary = tmp_path.parent / "t"  # short: sockets would be in it
    temporary.mkdir(exist_ok=True)
    environment = {
        "FASTQPS_TEST_FAKE_CUDA": "/libfakecudart.so",
        "PATH": FAKE_MPS_PATH,
        "FAKE_LIMITS": AT_ONCE,
        "FAKE_MPS_LOG": str(tmp_path / "commands"),
        "TMPDIR": str(temporary),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "CUDA_MPS_PIPE_DIRECTORY": "/somebody/elses",
    }
    servers: list[Server] = []

    def start(*flags: str, **more: str) -> Server:
        servers.append(Server("--device", "cuda:0", "--dispatchers", "2", *flags, **{**environment, **more}))
        return servers[-1]

    yield start
    for server in servers:
        if server.process.poll() is None:
            server.process.terminate()
            server.wait_end()
    assert list(temporary.iterdir()) == []


def restarts(server: Server) -> float:
    found = re.search(r'fastqps_restarts_total{role="dispatcher"} (\S+)', server.get("/metrics")[1])
    assert found
    return float(found[1])


def until_whole(server: Server) -> None:
    until(lambda: server.get("/readyz") == (200, READY), server.log)


def order(server: Server, *texts: str) -> None:
    """The log has these lines, in this order."""
    places = [next((i for i, line in enumerate(server.lines) if text in line), -1) for text in texts]
    assert places == sorted(places) and -1 not in places, (places, server.log())


def fault(server: Server, title: str, number: signal.Signals = signal.SIGUSR2) -> None:
    before = server.log().count(f"{title} (pid")
    server.child(title).send_signal(number)
    until(lambda: server.log().count(f"{title} (pid") > before, server.log)


def test_all_of_a_gpu_restart_together(serve: Callable[..., Server], tmp_path: Path) -> None:
    server = serve("--device", "cuda").wait_ready()
    order(
        server,
        "started mps 0", "started mps 1", "started dispatcher 0 (cuda:0)", "started dispatcher 1 (cuda:0)",
        "cuda:0: all of its 2 dispatchers are clients of its MPS daemon", " ready: ",
    )  # fmt: skip
    others = [server.child(f"dispatcher {i} (cuda:1)").pid for i in (2, 3)]
    server.child("dispatcher 1 (cuda:0)").kill()
    server.wait_line("dispatcher 1 (cuda:0) was ended by SIGKILL: restarting all 2 dispatchers of cuda:0")
    until_whole(server)
    server.wait_line("cuda:0: all of its 2 dispatchers are clients of its MPS daemon", 2)
    assert restarts(server) == 2
    assert [server.child(f"dispatcher {i} (cuda:1)").pid for i in (2, 3)] == others
    assert "dispatcher 0 (cuda:0) (pid" in server.log() and "dispatcher 0 (cuda:0) was ended" not in server.log()
    after = server.lines[server.lines.index(server.wait_line("restarting all 2")) :]
    started = [re.search(r"started (mps \d|dispatcher \d)", line) for line in after]
    first, second, *rest = [found[1] for found in started if found]
    assert (first, second, sorted(rest)) == ("mps 0", "dispatcher 0", ["dispatcher 1"])
    server.process.terminate()
    assert server.wait_end() == 0, server.log()
    quits = [line for line in (tmp_path / "commands").read_text().splitlines() if "quit" in line]
    assert [line.split()[0] for line in quits] == ["GPU-fake-0", "GPU-fake-0", "GPU-fake-1"]


def test_a_gpu_that_faults_again_and_again_stays_down(serve: Callable[..., Server]) -> None:
    server = serve("--device", "cuda").wait_ready()
    for _ in range(FAULTS_MAX):
        fault(server, "dispatcher 1 (cuda:0)")
        until_whole(server)
    fault(server, "dispatcher 0 (cuda:0)")
    cause = "dispatcher 0 (cuda:0) ended with exit code 71 (the device has failed: an illegal memory access)"
    reason = f"stays down: {FAULTS_MAX + 1} faults within 60 s of service; the last: {cause}"
    down = {"ready": True, "reasons": [], "degraded": [f"dispatcher {i} (cuda:0) {reason}" for i in (0, 1)]}
    until(lambda: server.get("/readyz") == (200, down), lambda: str(server.get("/readyz")))
    assert f"supervisor: cuda:0 {reason}" in server.log()
    assert server.get("/livez")[0] == 200
    daemon = int([line for line in server.lines if "started mps 0" in line][-1].rsplit("pid ")[1].rstrip(")\n"))
    until(lambda: not psutil.pid_exists(daemon), server.log)
    assert restarts(server) == 2 * FAULTS_MAX


@pytest.mark.parametrize("flags", [("--mps", "off"), *nightly((("--dispatchers", "1"),))])
def test_alone_a_fault_is_ones_own(serve: Callable[..., Server], flags: tuple[str, str]) -> None:
    server = serve("--device", "cuda", *flags).wait_ready()
    others = {process.pid for process in server.children()} - {server.child("dispatcher 0 (cuda:0)").pid}
    server.child("dispatcher 0 (cuda:0)").kill()
    server.wait_line("dispatcher 0 (cuda:0) (pid", 2)
    for _ in range(FAULTS_MAX):
        until_whole(server)
        fault(server, "dispatcher 0 (cuda:0)")
    until_whole(server)
    assert restarts(server) == 1 + FAULTS_MAX
    fault(server, "dispatcher 0 (cuda:0)")
    server.wait_line(f"dispatcher 0 (cuda:0) stays down: {FAULTS_MAX + 1} faults within 60 s of service")
    assert others <= {process.pid for process in server.children()}
    assert "mps" not in server.log() and "restarting all" not in server.log()


def test_a_crash_of_the_host_is_ones_own(serve: Callable[..., Server]) -> None:
    server = serve(FAKE_DISPATCHER="quit-1").wait_ready()
    other = server.child("dispatcher 0 (cuda:0)").pid
    server.child("dispatcher 1 (cuda:0)").send_signal(signal.SIGUSR2)
    server.wait_line("dispatcher 1 (cuda:0) (pid", 2)
    until_whole(server)
    assert "ended with exit code 1" in server.log()
    assert server.child("dispatcher 0 (cuda:0)").pid == other and restarts(server) == 1


def test_the_daemons_end_is_a_fault(serve: Callable[..., Server]) -> None:
    server = serve().wait_ready()
    pid = int(server.wait_line("started mps 0 (pid").rsplit("pid ")[1].rstrip(")\n"))
    os.kill(pid, signal.SIGKILL)
    server.wait_line("its MPS daemon ended: restarting all 2 dispatchers of cuda:0")
    server.wait_line("are clients of its MPS daemon", 2)
    until_whole(server)


def test_what_does_not_leave_is_killed(serve: Callable[..., Server]) -> None:
    server = serve(FAKE_LIMITS=f"{AT_ONCE},domain.LEAVE_MAX_S=0.5").wait_ready()
    server.child("dispatcher 0 (cuda:0)").suspend()
    fault(server, "dispatcher 1 (cuda:0)")
    server.wait_line("dispatcher 0 (cuda:0) (pid", 2)
    until_whole(server)
    assert restarts(server) == 2


@pytest.mark.parametrize(
    ("mps", "environment", "reason"),
    [
        ("auto", {"PATH": "/usr/bin"}, "nvidia-cuda-mps-control is not here"),
        (
            "auto",
            {"FAKE_DISPATCHER": "no-mps"},
            "dispatcher 0 (cuda:0) does not start: CUDA cannot be initialised",
        ),
        ("on", {"FAKE_MPS": "crashes"}, "the daemon ended with exit code 1: the GPU is lost"),
        (
            "on",
            {"FAKE_MPS": "no-clients", "FAKE_LIMITS": "mps.CLIENTS_MAX_S=0.3"},
            "are not among the daemon's clients",
        ),
    ],
)
def test_without_the_daemon(serve: Callable[..., Server], mps: str, environment: Any, reason: str) -> None:
    """--mps auto warns and goes on; --mps on ends the start."""
    server = serve("--mps", mps, **environment)
    if mps == "auto":
        server.wait_ready()
        order(server, "warning: cuda:0: no MPS: ", " ready: ")
        assert reason in server.log() and "; its dispatchers take turns on the GPU" in server.log()
    else:
        assert server.wait_end() == 3
        assert "--mps on: cuda:0: " in server.log() and reason in server.log() and " ready: " not in server.log()


def test_what_dispatchers_are_told(serve: Callable[..., Server], tmp_path: Path) -> None:
    server = serve("--device", "cuda:1", FAKE_DISPATCHER="tell").wait_ready()
    run = next((tmp_path.parent / "t").iterdir())
    told = server.wait_line("told: ").partition("told: ")[2].split()
    assert told == ["cuda:0", "GPU-fake-1", str(run / "gpu1/p"), str(tmp_path / "cache/fastqps/triton")]
    assert not (run.stat().st_mode & 0o077)
    alone = serve("--dispatchers", "1", FAKE_DISPATCHER="tell", TRITON_CACHE_DIR="/given").wait_ready()
    told = alone.wait_line("told: ").partition("told: ")[2].split()
    assert told[:2] == ["cuda:0", "GPU-fake-0"] and told[3] == "/given"
    assert told[2].endswith("/none") and list(Path(told[2]).iterdir()) == []


def test_a_killed_server_leaves_no_daemon(serve: Callable[..., Server], tmp_path: Path) -> None:
    server = serve().wait_ready()
    children = server.children()
    server.process.kill()
    server.process.wait()
    until(lambda: sum(not gone(process) for process in children) == 1, server.log)  # the daemon's own server
    again = serve().wait_ready()
    assert "which a killed server has left and ended its MPS processes" in again.log()
    until(lambda: all(map(gone, children)), server.log)


def test_end_while_the_dispatchers_restart(serve: Callable[..., Server]) -> None:
    server = serve().wait_ready()
    children = server.children()
    server.child("dispatcher 0 (cuda:0)").kill()
    server.wait_line("restarting all 2")
    server.process.terminate()
    assert server.wait_end() == 0, server.log()
    assert server.lines[-1].endswith("supervisor: stopped\n")
    until(lambda: all(map(gone, children)), server.log)
