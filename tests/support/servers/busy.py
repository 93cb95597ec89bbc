"""A dispatcher that is kept busy, and waiting for what a server then shows, without holding up the calls of a test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from gates import HOLD, Gate
from ledger import Ledger, stub_to, unary
from serving import PATIENCE_S, Server, until


async def sees(condition: Callable[[], object], what: str | Callable[[], str], timeout_s: float = PATIENCE_S) -> None:
    """``until``, while the calls go on."""
    await asyncio.to_thread(until, condition, what, timeout_s)


async def occupied(server: Server, stub: Any, ledger: Ledger, gate: Gate) -> asyncio.Task[str]:
    """The only dispatcher runs a step that the gate holds: of a size that no other has, so that it does not expect its
    end, and claims nothing ahead for it."""
    size = 64 << (gate.id - HOLD)
    call = asyncio.create_task(unary(stub, ledger, gate.id, *[7] * size))
    await sees(lambda: gate.reached() and server.claimed(1), "it runs, and nothing before it")
    return call


async def order_of(server: Server, asked: Sequence[dict[str, Any]], address: str = "") -> list[int]:
    """Sends requests with these fields, one after the other, while the only dispatcher is busy, whose steps hold one
    item; their numbers in the order of their steps. ``address``: of an edge in front of the server."""
    ledger = Ledger()
    async with stub_to(address or server.address) as stub:
        with server.gate() as gate:
            calls = [asyncio.create_task(unary(stub, ledger, gate.id))]
            await sees(gate.reached, "the dispatcher is busy")
            calls += [asyncio.create_task(unary(stub, ledger, output={"dimensions": 5}, **fields)) for fields in asked]
            await sees(lambda: server.work()["fastqps_slots_used"] == len(calls), "all wait")
        await asyncio.gather(*calls)
    ledger.check()
    return [number - 1 for number in sorted(ledger.steps, key=ledger.steps.__getitem__)]
