"""Who is let in, in which order, and for how long: full queues, priorities, deadlines, cancels."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from busy import occupied, sees
from echo_dispatcher import SLOW
from ledger import CANCELLED, EXPIRED, OK, REFUSED, Ledger, batch, channel_to, stub_to, unary
from serving import Server

from fastqps.v1 import predict_pb2 as pb
from fastqps.v1 import predict_pb2_grpc

Stub = predict_pb2_grpc.PredictServiceStub
TWO = ("--frontdoors=2", "--dispatchers=2", "--max-batch-items=8")


@pytest.mark.parametrize(
    ("flags", "text", "reason", "refused"),
    [
        # What a dispatcher has is not in the queue, and has its slot.
        (("--max-queue-items=16",), "queue", "queue_full", (40 - 15, 40 - 16)),
        (("--slots=16",), "slots", "slots", (40 - 14, 40 - 14)),
    ],
    ids=["queue", "slots"],
)
async def test_full(
    serve: Callable[..., Server], flags: tuple[str, ...], text: str, reason: str, refused: tuple[int, int]
) -> None:
    """What does not fit is refused at once, with a hint when to come back; the rest is answered. The last place is for
    another connection."""
    server = serve("--frontdoors=1", "--dispatchers=1", *flags, echo=True)
    ledger = Ledger()

    async def one(stub: Any, ledger: Ledger) -> None:
        request = ledger.ask()
        try:
            ledger.answered(request.request_id, await stub.Predict(request))
        except grpc.aio.AioRpcError as error:
            ledger.ended(request.request_id, error.code().name, error.details() or "")
            trailers = dict(error.trailing_metadata() or ())
            assert 0 < int(trailers["grpc-retry-pushback-ms"]) < 15_000
            assert b"google.rpc.RetryInfo" in trailers["grpc-status-details-bin"]

    async def check_items(stub: Any, ledger: Ledger) -> None:
        """In a batch each item is refused for itself, with its hint. It has the last place of the queue too, where its
        connection has nothing else; of the slots that has one."""
        before = ledger.counts[REFUSED]
        requests = [ledger.ask() for _ in range(40)]
        with server.gate() as gate:
            second = await occupied(server, stub, ledger, gate)
            answering = stub.PredictBatch(pb.PredictBatchRequest(items=requests))
            count = refused[0] + refused[1]
            await sees(lambda: refusals(server, reason) == count, f"{count} refusals")
        for request, item in zip(requests, (await answering).items, strict=True):
            ledger.answered(request.request_id, item)
            assert (item.status.code == 8) == (item.status.retry_after_ms > 0)
        assert ledger.counts[REFUSED] - before == refused[1], ledger.counts
        await second

    async with stub_to(server.address) as stub:
        with server.gate() as gate:
            first = await occupied(server, stub, ledger, gate)
            calls = [asyncio.create_task(one(stub, ledger)) for _ in range(40)]
            await sees(lambda: ledger.counts[REFUSED] == refused[0], "a refusal does not wait")
        await asyncio.gather(first, *calls)
        assert ledger.counts[REFUSED] == refused[0], ledger.counts
        await check_items(stub, ledger)
    ledger.check(REFUSED)
    assert all(text in found for found in ledger.texts.values()), ledger.texts
    server.until_idle()
    assert refusals(server, reason) == ledger.counts[REFUSED]


def refusals(server: Server, reason: str) -> float:
    """For want of room, or of room for one connection."""
    metrics = server.metrics()
    return sum(metrics[f"fastqps_rejected_total{{{one}}}"] for one in (reason, "tenant"))


async def test_deadlines(shared_server: Callable[..., Server]) -> None:
    """Many items whose time ends before, while and after they are answered: one end each, and the counts agree."""
    server = shared_server(*TWO, echo=True)
    before = server.metrics()
    ledger, chance = Ledger(), random.Random(5)

    async def one(stub: Any) -> None:
        await unary(stub, ledger, SLOW + chance.randrange(4), timeout_us=chance.randrange(1000, 250_000))

    channels = [channel_to(server.address) for _ in range(2)]
    stubs = [Stub(channel) for channel in channels]
    for _ in range(6):
        await asyncio.gather(*(one(chance.choice(stubs)) for _ in range(80)))
    assert await unary(stubs[0], ledger) == OK
    for channel in channels:
        await channel.close()
    ledger.check(EXPIRED, REFUSED)
    assert all("deadline" in text for text in ledger.texts.values())
    assert all("stage" in ledger.texts[n] for n, end in ledger.ends.items() if end == EXPIRED)
    server.until_idle()
    after = server.metrics()
    for name in ("fastqps_expired_total", f"fastqps_items_total{{{EXPIRED},minilm}}"):
        assert after[name] - before[name] == ledger.counts[EXPIRED]


async def test_cancel_storm(shared_server: Callable[..., Server]) -> None:
    """Half of the calls, some of many items, are cancelled at some moment: the others are answered with what is theirs,
    and all slots come back."""
    server = shared_server(*TWO, echo=True)
    ledger, chance = Ledger(), random.Random(7)

    async def one(stub: Any) -> None:
        slow = SLOW + chance.randrange(3)
        call: asyncio.Task[Any] = asyncio.create_task(
            batch(stub, ledger, 8, slow) if chance.random() < 0.1 else unary(stub, ledger, slow)
        )
        if chance.random() < 0.5:
            await asyncio.sleep(chance.uniform(0, 0.08))
            call.cancel()
        await asyncio.wait([call])

    channels = [channel_to(server.address) for _ in range(2)]
    stubs = [Stub(channel) for channel in channels]
    for _ in range(4):
        await asyncio.gather(*(one(chance.choice(stubs)) for _ in range(150)))
    await asyncio.to_thread(server.until_idle)
    assert await unary(stubs[0], ledger) == await unary(stubs[1], ledger) == OK
    for channel in channels:
        await channel.close()
    ledger.check(CANCELLED)
    assert ledger.counts[CANCELLED] > 50 and ledger.counts[OK] > 250, ledger.counts
