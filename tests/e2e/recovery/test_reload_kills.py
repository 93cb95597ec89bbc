"""Processes are killed while models are reloaded under load: nobody's request is lost, and the reload goes on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from busy import sees
from ledger import OK, Ledger, Load, channel_to, unary
from reloading import Reloaded, Versions, version_of
from service import Service
from serving import descriptors, until

from fastqps.supervisor.workers.worker_slot import RESTARTS_MAX, WINDOW_S
from fastqps.v1 import predict_pb2_grpc

FLIPPED = "finishes what it has"  # in the log
KILLED = ("UNAVAILABLE",)  # calls on the connections of a front door that is killed
RELOADS = 12  # there and back
SLACK_S = 10.0  # between our looks and those of the server


def kill(server: Reloaded, worker: str) -> None:
    os.kill(server.pid_of(worker), signal.SIGKILL)


async def test_after_the_flip(serve: Callable[..., Any], tmp_path: Path) -> None:
    """The old dispatcher, with a step on its device, and the new one are killed: both come back, the old one finishes
    what it had and goes, and not one request fails."""
    server = serve(tmp_path, "--frontdoors=2", "--dispatchers=1", kind=Reloaded)
    first, ledger = version_of(server), Ledger()
    async with (
        Load(server.address, ledger) as load,
        Versions(server.address) as versions,
        channel_to(server.address) as channel,
    ):
        stub = predict_pb2_grpc.PredictServiceStub(channel)
        await versions.sees(first)
        with server.gate() as gate:
            slow = asyncio.create_task(unary(stub, ledger, gate.id))
            await sees(gate.reached, "it runs")
            reloading = asyncio.create_task(server.becomes(server.two))
            await asyncio.to_thread(server.until_log, FLIPPED)
            for worker in ("dispatcher 0", "dispatcher 1"):
                kill(server, worker)
        await reloading
        assert await slow == OK
        await sees(lambda: server.ready("dispatcher 1"), f"it is back\n{server.log()}")
        await versions.sees(version_of(server))
        await load.more(50)
        assert versions.seen == [first, version_of(server)]
    ledger.check()
    server.until_idle()
    assert server.dispatchers() == [1]
    assert server.metrics()["fastqps_restarts_total{dispatcher}"] == 2


class Killer:
    """Kills processes of a server at random moments, each worker slot's only as often as it is started again."""

    def __init__(self, server: Reloaded, seed: int, *roles: str) -> None:
        self.kills = 0
        self._service = Service(server)
        self._random = random.Random(seed)
        self._roles = roles
        self._deaths: dict[str, deque[float]] = {}

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._random.uniform(0.0, 0.8))
            await asyncio.to_thread(self._service.look)
            self._kill_one()

    def _kill_one(self) -> None:
        workers = {worker: p for worker, p in self._service.processes.items() if worker.startswith(self._roles)}
        willing = [worker for worker in sorted(workers) if self._may_die(worker)]
        if not willing:
            return
        worker = self._random.choice(willing)
        self._deaths[worker].append(self._service.served_s[worker])
        self.kills += 1
        with contextlib.suppress(psutil.NoSuchProcess):
            workers[worker].kill()

    def _may_die(self, worker: str) -> bool:
        deaths = self._deaths.setdefault(worker, deque(maxlen=RESTARTS_MAX - 1))
        return len(deaths) < RESTARTS_MAX - 1 or self._service.served_s[worker] - deaths[0] > WINDOW_S + SLACK_S


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("roles", [("dispatcher",), ("dispatcher", "frontdoor")], ids=" ".join)
async def test_many_kills_during_many_reloads(
    serve: Callable[..., Any], tmp_path: Path, roles: tuple[str, ...]
) -> None:
    """At any moment of them, of both generations. Where no front door dies every request is answered; a request whose
    dispatcher died twice with it is taken for the cause, which the server counts."""
    server = serve(tmp_path, "--frontdoors=2", "--dispatchers=2", kind=Reloaded)
    files = sorted(len(descriptors(process)) for process in server.processes())
    ledger, killer = Ledger(), Killer(server, len(roles), *roles)
    async with Load(server.address, ledger) as load, Versions(server.address) as versions:
        killing = asyncio.create_task(killer.run())
        for _ in range(RELOADS):
            await server.becomes(server.two)
            await server.becomes(server.one)
            await load.more(50)
        killing.cancel()
        assert len(versions.seen) <= 2 * RELOADS + 1  # none came back after the flip away from it
    ledger.check(*(KILLED if "frontdoor" in roles else ()), "INTERNAL")
    workers = ("frontdoor 0", "frontdoor 1", "dispatcher 0", "dispatcher 1")
    until(lambda: all(map(server.ready, workers)), f"all are back\n{server.log()}")
    server.until_idle()
    found = server.metrics()
    assert killer.kills > RELOADS and found["fastqps_reloads_total{m,reloaded}"] == 2 * RELOADS
    assert found["fastqps_poisoned_total"] == ledger.counts["INTERNAL"] <= 1, ledger.texts
    until(lambda: sorted(len(descriptors(p)) for p in server.processes()) == files, f"descriptors: {files}")
