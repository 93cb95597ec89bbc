"""A bad network between an edge and one of two servers: it is seen soon, no request fails, and no answer is wrong."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from bad_network import BadNetwork
from ledger import Ledger, Load, batch_of, stub_to
from serving import PATIENCE_S, Server, until
from upstream_state import edge_of, news, serving, start_edge

import fastqps

SEEN_S = 2.0  # how soon a server that is gone must be seen
SLACK_S = 1.0  # for the test's machine


@dataclass(frozen=True)
class World:
    """Two servers behind an edge, the first one over a bad network."""

    network: BadNetwork
    front: Server

    def serving(self) -> bool:
        """Whether the first one is used. A suspended one is as soon as it has answered the copy of a request."""
        if found := serving(self.front, self.network.address):
            return found
        with contextlib.suppress(fastqps.CallError), fastqps.Client(self.front.address) as client:
            client.predict("a request")
        return False

    def news(self) -> list[str]:
        """What the edge has said of the first one."""
        return news(self.front, self.network.address)


@pytest.fixture(scope="module")
def started(module_server: Callable[..., Server]) -> Iterator[World]:
    first, second = (module_server("--frontdoors=1", "--dispatchers=1", echo=True) for _ in range(2))
    with BadNetwork(first.address) as network:
        yield World(network, start_edge(module_server, [network.address, second.address]))


@pytest.fixture
def world(started: World) -> World:
    """Every test begins with a sound network."""
    network = started.network
    network.delay_s, network.silent, network.flip, network.bytes_per_s = 0.0, False, 0.0, 0
    until(started.serving, f"it serves\n{started.front.log()}")
    return started


async def under_load(
    world: World, harm: Callable[[], Any], more: int = 200, enough: Callable[[], bool] = lambda: True
) -> None:
    """A load that meets the harm until there is enough of it, and of which nothing is lost."""
    ledger = Ledger()
    async with Load(world.front.address, ledger) as load:
        await load.more(200)
        await asyncio.to_thread(harm)
        end_s = time.monotonic() + PATIENCE_S
        while not enough() and time.monotonic() < end_s:
            await load.more(more)
        await load.more(more)
    ledger.check()


async def test_a_connection_is_cut_in_the_middle(world: World) -> None:
    """At every place: what the connection had is sent again, and the other connections go on."""

    def cut() -> None:
        for after in (0, 1, 700, 5000, 100_000):
            before = len(world.news())
            world.network.cut(after)
            until(lambda: not world.network.to_cut, "it is cut")
            until(world.serving, f"it serves again after {before}")

    await under_load(world, cut)


async def test_a_half_open_network(world: World) -> None:
    """Connections stand, new ones are accepted, and nothing comes: the server is left alone within two seconds."""

    def silence() -> None:
        world.network.silent = True
        took = until(lambda: not world.serving(), f"it is seen\n{world.front.log()}")
        assert took < SEEN_S + SLACK_S, took

    await under_load(world, silence)
    assert "suspended: " in world.news()[-1] or "connecting" in world.news()[-1], world.news()
    world.network.silent = False
    until(world.serving, "it comes back")


async def test_a_slow_network(world: World) -> None:
    """Fifty milliseconds each way: all is answered, over both servers."""
    await under_load(world, partial(setattr, world.network, "delay_s", 0.05), more=300)
    assert world.serving(), world.news()


async def test_a_narrow_network(world: World) -> None:
    """A few kilobytes a second: whether the server is left alone or not, requests go on by the other one."""
    end_s = time.monotonic() + 2
    await under_load(
        world, partial(setattr, world.network, "bytes_per_s", 2000), enough=lambda: time.monotonic() > end_s
    )


async def test_long_inputs_over_a_narrow_network(world: World, serve: Callable[..., Server]) -> None:
    """Seconds of bytes wait to be sent, and echoes behind them: a server whose answers come is not taken for dead."""
    address = world.network.address
    front = edge_of(serve, [address], "--lanes=1")
    ledger = Ledger()
    world.network.bytes_per_s = 25_000
    async with stub_to(front.address) as stub:
        await batch_of(stub, ledger, [ledger.ask(*[7] * 240) for _ in range(80)])
    ledger.check()
    assert len(news(front, address)) == 1, front.log()


@pytest.mark.parametrize("flip", [0.01, pytest.param(0.3, marks=pytest.mark.nightly)])
async def test_flipped_bits(world: World, flip: float) -> None:
    """No flipped bit becomes an answer, an error, or a lost request."""
    before = world.network.flipped

    def reasons() -> set[str]:
        return {re.sub(r"\d+", "N", line) for line in world.news()}

    def enough() -> bool:
        return world.network.flipped > before + 5 and any("checksum" in reason for reason in reasons())

    await under_load(world, partial(setattr, world.network, "flip", flip), enough=enough)
    assert enough(), (world.network.flipped - before, reasons())
