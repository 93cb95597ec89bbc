"""Two servers send connections away every second and are restarted one after the other: no call fails.

They are under load through every proxy at the same time; each way's ledger is then held to account by itself.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import pytest
from ledger import OK, Ledger, Load
from ports import free_port
from serving import PATIENCE_S, Server, until

from proxies.front import WAYS, must_be_installed, ways_to
from proxies.proxy import Proxy

ROUNDS = int(os.environ.get("FASTQPS_ROLLS", "1"))
# Longer than HAProxy and Envoy need to see it (0.5 s between two looks), also on a busy machine.
LAME_DUCK_S = 2
MORE = 50  # calls through each way between two steps
AGE_S = 1
CONNECTIONS = 3  # of each way, and as many ends of them at each server
GOAWAYS = "fastqps_transport_events_total{goaways,0}"


@dataclass
class Pair:
    """Two servers at addresses that outlive them."""

    servers: list[Server] = field(default_factory=list)
    ports: list[tuple[int, int]] = field(default_factory=lambda: [(free_port(), free_port()) for _ in range(2)])

    def start(self, i: int) -> Server:
        port, admin_port = self.ports[i]
        flags = (f"--port={port}", f"--admin-port={admin_port}", f"--lame-duck={LAME_DUCK_S}s")
        flags += (f"--max-connection-age={AGE_S}s",)
        return Server("--frontdoors=1", "--dispatchers=1", *flags, echo=True)

    def restart(self, i: int) -> None:
        """As a rollout does: told to end, ended without haste, started anew."""
        self.servers[i].signal(signal.SIGTERM)
        code = self.servers[i].wait(LAME_DUCK_S + PATIENCE_S)
        assert code == 0, f"exit code {code}:\n{self.servers[i].log()}"
        self.servers[i] = self.start(i)


async def roll(pair: Pair, loads: Sequence[Load], proxies: Sequence[Proxy]) -> None:
    async def more() -> None:
        await asyncio.gather(*(load.more(MORE, PATIENCE_S) for load in loads))

    await more()
    enough = CONNECTIONS * (1 + len(proxies))
    for server in pair.servers:
        await asyncio.to_thread(until, lambda server=server: server.metrics()[GOAWAYS] >= enough, "connections end")
    for i in [*range(2)] * ROUNDS:
        await asyncio.to_thread(pair.restart, i)
        for proxy in proxies:
            await asyncio.to_thread(proxy.until_healthy, 2)
        await more()


@pytest.fixture(scope="module")
def ledgers() -> Iterator[dict[str, Ledger]]:
    """What became of every call, by way, after both servers have been restarted."""
    pair = Pair()
    ledgers: dict[str, Ledger] = {}

    async def scenario() -> None:
        with ways_to(pair.servers) as (addresses, proxies):
            async with AsyncExitStack() as stack:
                for way, address in addresses.items():
                    ledgers[way] = Ledger()
                    load = Load(address, ledgers[way], workers=2, pause_s=0.03)
                    loads.append(await stack.enter_async_context(load))
                await roll(pair, loads, proxies)

    loads: list[Load] = []
    try:
        pair.servers += [pair.start(i) for i in range(2)]
        asyncio.run(scenario())
        for server in pair.servers:
            server.until_idle()
            server.stop()
        yield ledgers
    finally:
        for server in pair.servers:
            server.kill()


@pytest.mark.timeout(120 + 60 * ROUNDS)
@pytest.mark.parametrize("way", WAYS)
def test_no_call_fails(ledgers: dict[str, Ledger], way: str) -> None:
    must_be_installed(way)
    ledgers[way].check()
    assert ledgers[way].counts[OK] >= MORE * (1 + 2 * ROUNDS)
