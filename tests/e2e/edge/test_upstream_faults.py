"""Servers behind an edge that die, hang, drain and come back. By the client's ledger nothing is lost, answered twice or
swapped, and no client sees an error while one server lives."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import grpc
import psutil
import pytest
from busy import sees
from ledger import OK, Ledger, Load, stub_to, unary
from server_faults import drained, killed, stopped
from serving import PATIENCE_S, Server, until
from upstream_state import serving, start_edge


class World:
    """Two servers of the tests' echo dispatchers, and an edge in front of them."""

    def __init__(self, held: ExitStack) -> None:
        self._held = held  # ends whatever was started
        self.servers = [self._server(), self._server()]
        self.front = self._edge()

    def _server(self, *flags: str) -> Server:
        return self._holding(Server("--frontdoors=1", "--dispatchers=1", *flags, echo=True))

    def _edge(self) -> Server:
        return self._holding(start_edge(Server, [server.address for server in self.servers]))

    def _holding(self, server: Server) -> Server:
        self._held.callback(server.kill)
        return server

    def again(self, place: int) -> Server:
        """Starts a server where one was."""
        self.servers[place] = self._server(f"--port={self.servers[place].address.rpartition(':')[2]}")
        return self.servers[place]

    def mend(self) -> None:
        """All three serve."""
        for place, server in enumerate(self.servers):
            if not _runs(server):
                server.kill()  # one that is stopped holds its port
                self.again(place)
        if not _runs(self.front):
            self.front.kill()
            self.front = self._edge()
        for server in self.servers:
            until(lambda address=server.address: serving(self.front, address), f"it serves\n{self.front.log()}")

    def all(self) -> list[Server]:
        return [self.front, *self.servers]


def _runs(server: Server) -> bool:
    """Whether it has its supervisor, and nothing of it is stopped."""
    try:
        there = server.running()
    except FileNotFoundError:  # it was killed
        return False
    return there and all(process.status() != psutil.STATUS_STOPPED for process in server.processes())


@pytest.fixture(scope="module")
def started() -> Iterator[World]:
    with ExitStack() as held:
        world = World(held)
        yield world
        world.mend()
        for server in world.all():
            server.until_idle()
            server.stop()


@pytest.fixture
def world(started: World) -> World:
    started.mend()
    return started


# Of a network that is silent test_edge_network.py shows the same.
@pytest.mark.parametrize("fault", [killed, pytest.param(stopped, marks=pytest.mark.nightly), drained])
async def test_one_of_two_goes(world: World, fault: Callable[..., None]) -> None:
    """Each request is answered, what the lost server had included; and it is used again when it is back."""
    first, front = world.servers[0], world.front
    ledger = Ledger()
    before = front.metrics().get("fastqps_items_total", 0)
    async with Load(front.address, ledger) as load:
        await load.more(300)
        await asyncio.to_thread(fault, first)
        await sees(lambda: not serving(front, first.address), "it is seen")
        await load.more(300)
        first.kill()
        await asyncio.to_thread(world.again, 0)
        await sees(lambda: serving(front, first.address), "it is back")
        await load.more(200)
    ledger.check()
    assert front.metrics()["fastqps_items_total"] - before == ledger.sent


async def test_all_down(world: World) -> None:
    """Without any server requests fail at once, with a hint, and succeed a second after the return of one."""
    front = world.front
    ledger = Ledger()
    async with stub_to(front.address) as stub:
        for server in world.servers:
            server.kill()
        for server in world.servers:
            await sees(lambda address=server.address: not serving(front, address), "it is seen")
        began = time.monotonic()
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await stub.Predict(ledger.ask(), timeout=30)
        took = time.monotonic() - began
        assert failed.value.code() == grpc.StatusCode.UNAVAILABLE, failed.value
        assert failed.value.details() == "no upstream server can be used"
        assert any(key == "grpc-retry-pushback-ms" for key, _ in failed.value.trailing_metadata())
        assert took < 1, took
        again = await asyncio.to_thread(world.again, 0)
        async with asyncio.timeout(PATIENCE_S):
            while await unary(stub, ledger) != OK:
                await asyncio.sleep(0.01)
        assert again.running()


@pytest.mark.parametrize("worker", ["dispatcher 0", "frontdoor 0"])
async def test_edge_worker_killed(world: World, worker: str) -> None:
    """The edge's own processes die as those of every server: the servers behind it free what they had."""
    front = world.front
    ledger = Ledger()
    async with Load(front.address, ledger) as load:
        await load.more(200)
        old = front.child(worker)
        old.kill()
        await asyncio.to_thread(front.until_filled, worker, old)
        await load.more(200)
    ledger.check(*(["UNAVAILABLE"] if worker == "frontdoor 0" else []))
    for server in world.servers:
        server.until_idle()


async def test_edge_killed(world: World) -> None:
    """A server is rid of what a lost edge had within two seconds."""
    front = world.front

    def used() -> list[float]:
        return [server.work()["fastqps_slots_used"] for server in world.servers]

    ledger = Ledger()
    with ExitStack() as held:
        gate, other = (held.enter_context(server.gate()) for server in world.servers)
        assert gate.id == other.id
        async with stub_to(front.address) as stub:
            calls = [asyncio.create_task(unary(stub, ledger, gate.id)) for _ in range(8)]
            await sees(lambda: sum(used()) == 8, "they are there")
            front.kill()
            await asyncio.gather(*calls)
    for server in world.servers:
        await sees(lambda server=server: not any(server.work().values()), "it is idle")
