"""Thousands of items wait at a front door when something happens to the server: none is lost, answered twice or
swapped, and all of its slots come back."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from busy import sees
from channels import connect_in_turn
from gates import Gate
from ledger import OK, Ledger, batch, batch_of, channel_to, stub_to
from reloading import Reloaded, version_of
from serving import Server

from fastqps.v1 import predict_pb2 as pb
from fastqps.v1 import predict_pb2_grpc

Stub = predict_pb2_grpc.PredictServiceStub
FLAGS = ("--dispatchers=2", "--max-batch-items=16", "--max-queue-items=8192", "--slots=8192")
HELD, CALL = 3000, 100  # items, and items of a call
BUSY = 8  # items that keep both dispatchers


async def busy(server: Server, stub: Any, ledger: Ledger, gate: Gate, dispatchers: int = 2) -> list[asyncio.Task[None]]:
    """Every dispatcher runs a step that the gate holds."""
    calls = []
    for running in range(1, dispatchers + 1):
        calls.append(asyncio.create_task(batch(stub, ledger, BUSY // 2, gate.id)))
        await sees(lambda running=running: server.claimed(running * BUSY // 2), "it runs")
    return calls


def held(stub: Any, ledger: Ledger, items: int = HELD, **fields: Any) -> list[asyncio.Task[None]]:
    """So many items of all classes, of many tenants, some of them in groups."""
    chance = random.Random(items)

    def ask() -> pb.PredictRequest:
        group = f"parent {chance.randrange(20)}" if chance.random() < 0.3 else ""
        one = {name: value() for name, value in fields.items()}
        return ledger.ask(priority=chance.randrange(4), tenant=f"tenant {chance.randrange(50)}", group=group, **one)

    requests = [ask() for _ in range(items)]
    return [asyncio.create_task(batch_of(stub, ledger, requests[at : at + CALL])) for at in range(0, items, CALL)]


async def all_wait(server: Server, items: int) -> None:
    await sees(lambda: server.work()["fastqps_slots_used"] == items, f"{items} are in")


async def test_a_dispatcher_is_killed(serve: Callable[..., Server]) -> None:
    """All are answered: what it ran, what was next, and what waits."""
    server = serve("--frontdoors=1", *FLAGS, echo=True)
    ledger = Ledger()
    old = server.child("dispatcher 0")
    async with stub_to(server.address) as stub:
        with server.gate() as gate:
            calls = await busy(server, stub, ledger, gate)
            calls += held(stub, ledger)
            await all_wait(server, BUSY + HELD)
            old.kill()
            await sees(lambda: not old.is_running(), "it is dead")
        await asyncio.gather(*calls)
    ledger.check()
    server.until_idle()


async def test_a_front_door_is_killed(serve: Callable[..., Server]) -> None:
    """Its own calls end UNAVAILABLE at once; those that wait at the other front door are answered."""
    server = serve("--frontdoors=2", *FLAGS, echo=True)
    ledger = Ledger()
    old = server.child("frontdoor 0")
    channels = [channel_to(server.address) for _ in range(2)]
    await connect_in_turn(server, channels)
    dies, lives = (Stub(channel) for channel in channels)
    with server.gate() as gate:
        calls = await busy(server, lives, ledger, gate)
        lost = held(dies, ledger, HELD // 2)
        first = ledger.sent
        calls += held(lives, ledger, HELD // 2)
        await all_wait(server, BUSY + HELD)
        old.kill()
        await asyncio.gather(*lost)
        await asyncio.to_thread(server.until_filled, "frontdoor 0", old)
    await asyncio.gather(*calls)
    assert {ledger.ends[number] for number in range(BUSY, first)} == {"UNAVAILABLE"}
    assert {ledger.ends[number] for number in range(first, ledger.sent)} == {OK}
    for channel in channels:
        await channel.close()
    ledger.check("UNAVAILABLE")
    server.until_idle()


async def test_a_drain(serve: Callable[..., Server]) -> None:
    """What waits when SIGTERM comes is answered before the end."""
    server = serve("--frontdoors=1", *FLAGS, echo=True)
    ledger = Ledger()
    async with stub_to(server.address) as stub:
        with server.gate() as gate:
            calls = await busy(server, stub, ledger, gate)
            calls += held(stub, ledger)
            await all_wait(server, BUSY + HELD)
            server.signal(signal.SIGTERM)
            await sees(lambda: "SIGTERM" in server.log(), "it drains")
        await asyncio.gather(*calls)
    assert await asyncio.to_thread(server.wait) == 0, server.log()
    ledger.check()


async def test_a_reload(serve: Callable[..., Any], tmp_path: Path) -> None:
    """What waits when the model changes is answered, by the old version or the new one."""
    server = serve(tmp_path, "--frontdoors=1", "--dispatchers=1", *FLAGS[1:], kind=Reloaded)
    first, ledger = version_of(server), Ledger()
    async with stub_to(server.address) as stub:
        with server.gate() as gate:
            calls = await busy(server, stub, ledger, gate, dispatchers=1)
            calls += held(stub, ledger)
            await all_wait(server, BUSY // 2 + HELD)
            reloading = asyncio.create_task(server.becomes(server.two))
            await asyncio.to_thread(server.until_log, "finishes what it has")
            calls += held(stub, ledger, CALL)
        await asyncio.gather(reloading, *calls)
    ledger.check()
    assert version_of(server) != first
    server.until_idle()
