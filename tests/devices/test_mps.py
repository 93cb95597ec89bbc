"""The MPS daemon of a GPU, with a program of the tests in its place: started, asked, stopped, and what goes wrong."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from fake_mps.path import FAKE_MPS_PATH
from paths import FAKE_MPS, python_path
from serving import PATIENCE_S, until

from fastqps.devices import Device, DeviceError
from fastqps.host.gpus import AMD, NVIDIA, Gpu, Vendor
from fastqps.supervisor import run_directory
from fastqps.supervisor.gpu import mps
from fastqps.supervisor.gpu.mps import MpsDaemon, MpsError
from fastqps.supervisor.gpu.sharing import Sharing
from fastqps.supervisor.log import Log
from fastqps.supervisor.run_directory import RunDirectory

GPU = Gpu(0, "GPU-7", "a GPU", 1 << 30, "0000:01:00.0", (9, 0), ())
CLIENT = "import sys; from fake_mps.client import connect; connect(); print(flush=True); sys.stdin.read()"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with (tmp_path / "log").open("wb") as file:
        log = Log(file.fileno())
        yield log
        log.close()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, log: Log) -> Iterator[RunDirectory]:
    """The fake program is in the PATH, and a directory for it under a short name. It has all the time that it takes."""
    monkeypatch.setenv("PATH", FAKE_MPS_PATH)
    monkeypatch.setenv("FAKE_MPS_LOG", str(tmp_path / "commands"))
    for limit in ("START_MAX_S", "ASK_MAX_S", "QUIT_MAX_S"):
        monkeypatch.setattr(mps, limit, PATIENCE_S)
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        directory = RunDirectory(log)
        yield directory
        directory.close()
        assert not os.listdir(folder)
        check_gone(Path(folder))


def mps_processes(folder: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):  # it has ended meanwhile
            if (
                process.name().startswith("nvidia-cuda-mps")
                and str(folder) in str(process.environ())
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(process)
    return found


def check_gone(folder: Path) -> None:
    """All of them have been killed; how soon that takes effect is up to the system."""
    until(lambda: not mps_processes(folder), "an end of all of them")


def client(pipes: Path | str) -> subprocess.Popen[bytes]:
    """A process that has become a client, if there is a daemon, until its stdin closes."""
    process = subprocess.Popen(
        [sys.executable, "-c", CLIENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": python_path(), "CUDA_MPS_PIPE_DIRECTORY": str(pipes)},
    )
    assert process.stdout and process.stdout.readline()
    return process


def during(daemon: MpsDaemon, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs something while the daemon runs."""

    async def all_of_it() -> None:
        await daemon.start()
        try:
            await work()
        finally:
            await daemon.stop()

    asyncio.run(all_of_it())


def test_clients_are_counted(run: RunDirectory, log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = MpsDaemon(GPU, run, log)

    async def work() -> None:
        with client(daemon.pipes) as first, client(daemon.pipes) as second:
            assert await daemon.absent([first.pid, second.pid]) == []
            monkeypatch.setattr(mps, "CLIENTS_MAX_S", 0.3)
            assert await daemon.absent([1, first.pid]) == [1]
            await daemon.terminate([first.pid])
            assert first.wait(PATIENCE_S) == -9
            assert not daemon.ended
            second.communicate()

    during(daemon, work)
    commands = (tmp_path / "commands").read_text().splitlines()
    assert {line.split()[0] for line in commands} == {"GPU-7"}  # the daemon's own GPU, whatever else is there
    assert commands[-1] == "GPU-7 quit -t 2"
    check_gone(run.path)


def test_it_can_be_started_again(run: RunDirectory, log: Log) -> None:
    daemon = MpsDaemon(GPU, run, log)

    async def work() -> None:
        await daemon.stop()
        await daemon.start()
        with client(daemon.pipes) as process:
            assert await daemon.absent([process.pid]) == []
            process.communicate()

    during(daemon, work)


@pytest.mark.parametrize(("mode", "left"), [("stubborn", False), ("leaves-server", True)])
def test_what_does_not_end_is_killed(
    run: RunDirectory, log: Log, monkeypatch: pytest.MonkeyPatch, mode: str, left: bool, tmp_path: Path
) -> None:
    monkeypatch.setenv("FAKE_MPS", mode)
    monkeypatch.setattr(mps, "QUIT_MAX_S", 0.3)

    async def work() -> None:
        assert len(mps_processes(run.path)) == 2  # the daemon and its server

    during(MpsDaemon(GPU, run, log), work)
    check_gone(run.path)
    log.close()
    assert "killed what it left behind" in (tmp_path / "log").read_text()


def test_it_is_seen_to_end(run: RunDirectory, log: Log) -> None:
    daemon = MpsDaemon(GPU, run, log)

    async def work() -> None:
        for process in mps_processes(run.path):
            process.kill()
        while not daemon.ended:
            await asyncio.sleep(0.01)
        with pytest.raises(MpsError, match="refused 'get_server_list': Cannot find MPS control daemon process"):
            await daemon.absent([1])

    during(daemon, work)


@pytest.mark.parametrize(
    ("mode", "gpu", "message"),
    [
        ("crashes", {}, r"the daemon ended with exit code 1: the GPU is lost$"),
        ("hangs-alone", {}, r"nvidia-cuda-mps-control did not answer 'get_server_list' in 0.2 s$"),
        ("", {"mig": True}, "it is a MIG instance, on which MPS does not run"),
    ],
)
def test_why_there_is_none(
    run: RunDirectory, log: Log, monkeypatch: pytest.MonkeyPatch, mode: str, gpu: dict[str, Any], message: str
) -> None:
    monkeypatch.setenv("FAKE_MPS", mode)
    monkeypatch.setattr(mps, "ASK_MAX_S", 0.2 if mode == "hangs-alone" else PATIENCE_S)
    monkeypatch.setattr(mps, "START_MAX_S", 0.5 if mode == "hangs-alone" else PATIENCE_S)
    with pytest.raises(MpsError, match=message):
        asyncio.run(MpsDaemon(dataclasses.replace(GPU, **gpu), run, log).start())
    check_gone(run.path)


def test_no_program(run: RunDirectory, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(MpsError, match=r"^nvidia-cuda-mps-control is not here \(it comes with the NVIDIA driver"):
        asyncio.run(MpsDaemon(GPU, run, log).start())


def test_a_program_that_came_with_the_driver_need_not_be_on_the_path(
    run: RunDirectory, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join(["/usr/bin", "/bin"]))  # the fake one is a script
    monkeypatch.setattr(mps, "DRIVER", str(FAKE_MPS))

    async def scenario() -> None:
        daemon = MpsDaemon(GPU, run, log)
        await daemon.start()
        await daemon.stop()

    asyncio.run(scenario())
    assert not mps_processes(run.path)


def test_a_path_too_long_for_sockets(log: Log, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", f"{FAKE_MPS}:{os.environ['PATH']}")
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    run = RunDirectory(log)
    with pytest.raises(MpsError, match="is too long a path for sockets; set TMPDIR to a shorter one"):
        asyncio.run(MpsDaemon(GPU, run, log).start())
    run.close()


KILLED = """
import asyncio, os, signal, tempfile
from fastqps.supervisor.log import Log
from fastqps.supervisor.gpu.mps import MpsDaemon
from fastqps.supervisor.run_directory import RunDirectory
from test_mps import GPU
async def main():
    log = Log()
    await MpsDaemon(GPU, RunDirectory(log), log).start()
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


def test_what_a_killed_server_left_is_cleared(run: RunDirectory, log: Log, tmp_path: Path) -> None:
    """Its daemon ends with it; the daemon's server is found by its environment. A run that lives is left alone."""
    folder = run.path.parent
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": python_path(str(Path(__file__).parent))}
    done = subprocess.run([sys.executable, "-c", KILLED], env=environment, capture_output=True, timeout=PATIENCE_S)
    assert done.returncode == -9, done.stderr
    [left] = [path for path in folder.iterdir() if path != run.path]
    until(lambda: len(mps_processes(left)) == 1, "the daemon ends with it")
    servers = mps_processes(left)
    assert servers[0].cmdline()[-1] == "server"
    again = RunDirectory(log)
    assert sorted(folder.iterdir()) == sorted([run.path, again.path])
    psutil.wait_procs(servers, PATIENCE_S)
    check_gone(left)
    again.close()
    log.close()
    assert (
        f"cleared {left}, which a killed server has left and ended its MPS processes" in (tmp_path / "log").read_text()
    )


def test_a_start_that_is_given_up_leaves_nothing(run: RunDirectory, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server was told to end while the daemon did not answer."""
    monkeypatch.setenv("FAKE_MPS", "hangs")

    async def work() -> None:
        starting = asyncio.create_task(MpsDaemon(GPU, run, log).start())
        while len(mps_processes(run.path)) < 3:  # the daemon, its server, and a question
            await asyncio.sleep(0.01)
        starting.cancel()
        await asyncio.wait([starting])
        check_gone(run.path)

    asyncio.run(work())


def test_a_program_that_cannot_be_run(
    run: RunDirectory, log: Log, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / mps.PROGRAM
    program.write_text("#!/nowhere/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MpsError, match=f"{mps.PROGRAM} cannot be run: No such file or directory$"):
        asyncio.run(MpsDaemon(GPU, run, log).start())
    log.close()
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_no_room_leaves_no_folder(log: Log, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(run_directory, "OWNER", "o" * 300)  # a file that cannot be made
    with pytest.raises(OSError, match="too long"):
        RunDirectory(log)
    assert not os.listdir(folder)


def test_nothing_is_left_where_nobody_waits_for_the_end(run: RunDirectory, log: Log) -> None:
    async def work() -> None:
        daemon = MpsDaemon(GPU, run, log)
        await daemon.start()
        stopping = asyncio.create_task(daemon.stop())
        await asyncio.sleep(0)
        stopping.cancel()
        await asyncio.wait([stopping])
        check_gone(run.path)

    asyncio.run(work())


@pytest.mark.parametrize(("processes", "refused"), [(1, False), (2, True)])
def test_a_gpu_for_one_process(run: RunDirectory, log: Log, processes: int, refused: bool) -> None:
    gpu = dataclasses.replace(GPU, compute_mode="exclusive-process")
    sharing = Sharing(Device("cuda:0", "cuda:0", gpu=gpu), processes, "off", run, log)
    if refused:
        with pytest.raises(DeviceError, match="exclusive-process, so without MPS one process at a time"):
            asyncio.run(sharing.open())
    else:
        asyncio.run(sharing.open())
        assert not sharing.together


@pytest.mark.parametrize(("vendor", "together"), [(NVIDIA, True), (AMD, False)])
def test_auto_starts_no_daemon_for_gpus_that_have_none(
    run: RunDirectory, log: Log, vendor: Vendor, together: bool
) -> None:
    async def work() -> None:
        gpu = dataclasses.replace(GPU, vendor=vendor)
        sharing = Sharing(Device("cuda:0", "cuda:0", gpu=gpu), 2, "auto", run, log)
        await sharing.open()
        assert sharing.together == together
        assert sharing.environment()[vendor.visible] == GPU.uuid
        await sharing.close()

    asyncio.run(work())
