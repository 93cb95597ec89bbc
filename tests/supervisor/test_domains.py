"""Dispatchers that share a GPU: under MPS a fault of one is a fault of all, else of nobody else. None is a process.

Daemons are processes in tests/devices/test_mps.py, and dispatchers in tests/e2e/devices/test_gpu_faults.py.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from process_table import FakeDaemon, Program, World, in_fake_time

from fastqps.errors import DEVICE_FAULT, NO_DEVICE
from fastqps.host.gpus import FAKE_LIBRARY
from fastqps.supervisor.gpu import sharing
from fastqps.supervisor.gpu.mps import MpsError
from fastqps.supervisor.workers.failure_domain import FAULTS_MAX, LEAVE_MAX_S

FAULT = "the device has failed: an illegal memory access"
CLIENTS = "all of its 2 dispatchers are clients of its MPS daemon"


@pytest.fixture(autouse=True)
def _gpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two GPUs, and daemons that obey."""
    monkeypatch.setenv(FAKE_LIBRARY, "any")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sharing, "MpsDaemon", FakeDaemon)


def fault(world: World, number: int) -> None:
    world.processes[f"dispatcher {number}"].end(DEVICE_FAULT, FAULT)


def restarts(world: World) -> int:
    return world.supervisor.view.restarts()["dispatcher"]


@in_fake_time
async def test_all_of_a_gpu_restart_together() -> None:
    world = await World("--device=cuda", "--dispatchers=2").ready()
    world.order(
        "started mps 0", "started mps 1", "started dispatcher 0 (cuda:0)", "started dispatcher 1 (cuda:0)", CLIENTS
    )
    world.order("started dispatcher 1 (cuda:0)", f"cuda:0: {CLIENTS}", " ready: ")
    others = [world.processes[f"dispatcher {i}"] for i in (2, 3)]
    del world.log.lines[:], world.events[:]
    world.processes["dispatcher 1"].end(-signal.SIGKILL)
    await world.line_of(f"cuda:0: {CLIENTS}")
    await world.ready()
    world.order(
        "dispatcher 1 (cuda:0) was ended by SIGKILL: restarting all 2 dispatchers of cuda:0",
        "dispatcher 0 (cuda:0) (pid", "stopped mps 0", "started mps 0", "started dispatcher 0", "started dispatcher 1",
    )  # fmt: skip
    assert restarts(world) == 2 and [world.processes[f"dispatcher {i}"] for i in (2, 3)] == others
    signal.raise_signal(signal.SIGTERM)
    assert await world.ended() == 0
    assert [line for line in world.log.lines if "stopped mps" in line] == [
        f"supervisor: stopped mps {i}" for i in (0, 0, 1)
    ]


@in_fake_time
async def test_a_gpu_that_faults_again_and_again_stays_down() -> None:
    world = World("--device=cuda", "--dispatchers=2")
    for _ in range(FAULTS_MAX):
        await world.ready()
        fault(world, 1)
        await world.until(lambda: world.state()[2])
    await world.ready()
    fault(world, 0)
    cause = f"dispatcher 0 (cuda:0) ended with exit code 71 ({FAULT})"
    reason = f"stays down: {FAULTS_MAX + 1} faults within 60 s of service; the last: {cause}"
    down = tuple(f"dispatcher {i} (cuda:0) {reason}" for i in (0, 1))
    await world.until(lambda: world.state() == (True, True, down))
    assert world.log.count(f"supervisor: cuda:0 {reason}") == 1
    assert world.log.count("started mps 0") == world.log.count("stopped mps 0")
    assert restarts(world) == 2 * FAULTS_MAX


@pytest.mark.parametrize("flags", [("--dispatchers=2", "--mps=off"), ("--dispatchers=1",)])
@in_fake_time
async def test_alone_a_fault_is_ones_own(flags: tuple[str, ...]) -> None:
    world = World("--device=cuda", *flags)
    await world.ready()
    others = {title: process for title, process in world.processes.items() if title != "dispatcher 0"}
    world.processes["dispatcher 0"].end(-signal.SIGKILL)
    for _ in range(FAULTS_MAX + 1):
        await world.until(lambda: world.state()[2])
        await world.ready()
        fault(world, 0)
    await world.line_of(f"dispatcher 0 (cuda:0) stays down: {FAULTS_MAX + 1} faults within 60 s of service")
    assert restarts(world) == 1 + FAULTS_MAX
    assert {title: process for title, process in world.processes.items() if title != "dispatcher 0"} == others
    assert world.log.count("mps") == world.log.count("restarting all") == 0


@in_fake_time
async def test_the_daemons_end_is_a_fault() -> None:
    world = await World("--device=cuda:0", "--dispatchers=2").ready()
    world.supervisor.workers.sharings[0]._daemon.ended = True  # type: ignore[union-attr, misc]
    await world.line_of("its MPS daemon ended: restarting all 2 dispatchers of cuda:0")
    await world.line_of(CLIENTS, 2)
    await world.ready()


@in_fake_time
async def test_one_that_does_not_leave_is_taken_off_the_gpu_and_killed() -> None:
    world = await World("--device=cuda:0", "--dispatchers=2").ready()
    world.processes["dispatcher 0"].faults.add("deaf")
    fault(world, 1)
    took_s = await world.until(lambda: world.log.count("terminate 1 clients"))
    assert LEAVE_MAX_S <= took_s < LEAVE_MAX_S + 0.1
    await world.line_of("started dispatcher 0", 2)
    await world.ready()
    assert "SIGKILL dispatcher 0" in world.events and restarts(world) == 2


class NoDaemon(FakeDaemon):
    async def start(self) -> None:
        raise MpsError("nvidia-cuda-mps-control is not here")


class NoClients(FakeDaemon):
    async def absent(self, pids: Any) -> list[int]:
        return sorted(pids)


CUDA_FAILS = Program(fails=(NO_DEVICE, "CUDA cannot be initialised", 0.05))


@pytest.mark.parametrize("mps", ["auto", "on"])
@pytest.mark.parametrize(
    ("daemon", "programs", "reason"),
    [
        (NoDaemon, {}, "nvidia-cuda-mps-control is not here"),
        (FakeDaemon, {"dispatcher 0": CUDA_FAILS}, "dispatcher 0 (cuda:0) does not start: CUDA cannot be initialised"),
        (NoClients, {}, "are not among the daemon's clients"),
    ],
)
@in_fake_time
async def test_without_the_daemon(
    monkeypatch: pytest.MonkeyPatch, mps: str, daemon: Callable[..., Any], programs: dict[str, Program], reason: str
) -> None:
    """--mps auto warns and goes on; --mps on ends the start."""
    monkeypatch.setattr(sharing, "MpsDaemon", daemon)
    world = World("--device=cuda:0", "--dispatchers=2", f"--mps={mps}", programs=programs)
    if mps == "auto":
        await world.until(lambda: world.log.count("supervisor: cuda:0: no MPS: "))
        world.programs.clear()
        await world.ready()
        assert world.log.count(f"{reason}; its dispatchers take turns on the GPU") == 1
        world.order("supervisor: cuda:0: no MPS: ", " ready: ")
    elif daemon is NoDaemon:
        with pytest.raises(sharing.DeviceError, match=f"--mps on: cuda:0: {reason}"):
            await world.ended()
    else:
        assert await world.ended() == NO_DEVICE
        assert world.log.count(reason) or world.log.count("cannot start: CUDA cannot be initialised")
        assert world.log.count(" ready: ") == 0


@in_fake_time
async def test_what_dispatchers_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = ("CUDA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY", "TRITON_CACHE_DIR")
    world = await World("--device=cuda:1", "--dispatchers=2").ready()
    told = [world.processes["dispatcher 0"].environment[name] for name in names]
    assert told == ["GPU-fake-1", "/pipes/GPU-fake-1", str(tmp_path / "fastqps/triton")]
    monkeypatch.setenv("TRITON_CACHE_DIR", "/given")
    world = await World("--device=cuda:0", "--dispatchers=1").ready()
    told = [world.processes["dispatcher 0"].environment[name] for name in names]
    assert told == ["GPU-fake-0", "/run/none", "/given"]


@pytest.mark.parametrize("after_s", [0.0, 0.01, 0.03, 0.05, 0.1, 0.2])
@in_fake_time
async def test_end_while_the_dispatchers_restart(after_s: float) -> None:
    world = await World("--device=cuda:0", "--dispatchers=2").ready()
    world.processes["dispatcher 0"].end(-signal.SIGKILL)
    began_s = world.loop.time()
    await world.until(lambda: world.loop.time() >= began_s + after_s)
    signal.raise_signal(signal.SIGTERM)
    assert await world.ended() == 0
    assert world.log.lines[-1] == "supervisor: stopped"
    assert world.log.count("started mps 0") == world.log.count("stopped mps 0")
    assert not any(process.alive for process in world.processes.values())
