"""Connections are sent away again and again, under load: on every way the calls move on to new ones, and none fails."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest
from ledger import OK, Ledger, Load
from serving import Server, until

from proxies.front import WAYS, must_be_installed, ways_to

AGE_S = 1
CONNECTIONS = 3  # of each way, and as many ends of them
EVENTS = "fastqps_transport_events_total{%s,0}"


@pytest.fixture(scope="module")
def ledgers() -> Iterator[dict[str, Ledger]]:
    """What became of every call, by way."""
    server = Server("--frontdoors=1", "--dispatchers=1", f"--max-connection-age={AGE_S}s", echo=True)
    ledgers: dict[str, Ledger] = {}

    async def scenario() -> None:
        with ways_to([server]) as (addresses, proxies):
            async with AsyncExitStack() as stack:
                for way, address in addresses.items():
                    ledgers[way] = Ledger()
                    await stack.enter_async_context(Load(address, ledgers[way], channels=1, workers=3, pause_s=0.01))
                count = CONNECTIONS * (1 + len(proxies))
                await asyncio.to_thread(until, lambda: server.metrics()[EVENTS % "goaways"] >= count, "many ends")
                await asyncio.to_thread(
                    until, lambda: min(told.counts[OK] for told in ledgers.values()) > 100, "answers"
                )

    try:
        asyncio.run(scenario())
        server.until_idle()
        server.stop()
        yield ledgers
    finally:
        server.kill()


@pytest.mark.parametrize("way", WAYS)
def test_no_call_fails(ledgers: dict[str, Ledger], way: str) -> None:
    must_be_installed(way)
    ledgers[way].check()
    assert ledgers[way].counts[OK] > 100
