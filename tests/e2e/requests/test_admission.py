"""Who is let in, in which order, and for how long: full queues, priorities, deadlines, cancels."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from busy import occupied, sees
from echo_dispatcher import SLOW
from ledger import CANCELLED, EXPIRED, OK, REFUSED, Ledger, channel_to, stub_to, unary
from serving import Server
from tries import until_in_time

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
def test_full(
    serve: Callable[..., Server], flags: tuple[str, ...], text: str, reason: str, refused: tuple[int, int]
) -> None:
    """What does not fit is refused at once, with a hint when to come back; the rest is answered. The last place is for
    another connection."""
    server = serve("--frontdoors=1", "--dispatchers=1", *flags, echo=True)
    ledger = Ledger()

    async def scenario() -> None:
        async with stub_to(server.address) as stub:
            with server.gate() as gate:
                first = await occupied(server, stub, ledger, gate)
                calls = [asyncio.create_task(one(stub, ledger)) for _ in range(40)]
                await sees(lambda: ledger.counts[REFUSED] == refused[0], "a refusal does not wait")
            await asyncio.gather(first, *calls)
            assert ledger.counts[REFUSED] == refused[0], ledger.counts
            await check_items(stub, ledger)

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
        answer = await answering
        for request, item in zip(requests, answer.items, strict=True):
            ledger.answered(request.request_id, item)
            assert (item.status.code == 8) == (item.status.retry_after_ms > 0)
        assert ledger.counts[REFUSED] - before == refused[1], ledger.counts
        await second

    asyncio.run(scenario())
    ledger.check(REFUSED)
    assert all(text in found for found in ledger.texts.values()), ledger.texts
    server.until_idle()
    assert refusals(server, reason) == ledger.counts[REFUSED]


def refusals(server: Server, reason: str) -> float:
    """For want of room, or of room for one connection."""
    metrics = server.metrics()
    return sum(metrics[f"fastqps_rejected_total{{{one}}}"] for one in (reason, "tenant"))


async def test_a_batch_as_large_as_there_is_room(serve: Callable[..., Server]) -> None:
    """An idle server takes all of it, each time."""
    flags = ("--frontdoors=1", "--dispatchers=1", "--max-batch-items=8", "--max-queue-items=64", "--slots=64")
    server = serve(*flags, echo=True)
    ledger = Ledger()
    async with stub_to(server.address) as stub:
        for _ in range(3):
            requests = [ledger.ask() for _ in range(64)]
            answer = await stub.PredictBatch(pb.PredictBatchRequest(items=requests))
            for request, item in zip(requests, answer.items, strict=True):
                ledger.answered(request.request_id, item)
    ledger.check()


async def test_a_greedy_client_leaves_room(serve: Callable[..., Server]) -> None:
    """Of a queue that nobody takes from it gets eight ninths; another one's single calls find their places."""
    server = serve("--frontdoors=1", "--dispatchers=1", "--max-queue-items=128", echo=True)
    greedy, honest = Ledger(), Ledger()

    def waiting() -> float:
        return server.work()["fastqps_requests_waiting"]

    async with stub_to(server.address) as first, stub_to(server.address) as second:
        with server.gate() as gate:
            calls = [await occupied(server, first, greedy, gate)]
            calls += [asyncio.create_task(unary(first, greedy)) for _ in range(300)]
            await sees(lambda: greedy.counts[REFUSED] + waiting() == 300, "all are in or out")
            taken = round(waiting())
            calls += [asyncio.create_task(unary(second, honest)) for _ in range(10)]
            await sees(lambda: waiting() == taken + 10, "all ten are in")
        await asyncio.gather(*calls)
        assert 128 * 8 // 9 - 1 <= taken <= 128 * 8 // 9 + 1
    honest.check()
    greedy.check(REFUSED)


def order_of_answers(server: Server, priorities: list[int]) -> list[int]:
    """Queues requests of these priorities while the dispatcher is busy; the priorities in the order of their steps."""
    ledger, asked = Ledger(), dict[int, int]()

    async def one(stub: Any, priority: int) -> None:
        request = ledger.ask(priority=priority, output={"dimensions": 5})
        asked[request.request_id] = priority
        ledger.answered(request.request_id, await stub.Predict(request))

    async def scenario() -> None:
        async with stub_to(server.address) as stub:
            with server.gate() as gate:
                first = await occupied(server, stub, ledger, gate)
                calls = [asyncio.create_task(one(stub, priority)) for priority in priorities]
                waiting = len(priorities)
                await sees(lambda: server.work()["fastqps_requests_waiting"] == waiting, f"{waiting} wait")
            await asyncio.gather(first, *calls)

    asyncio.run(scenario())
    ledger.check()
    return [asked[number] for number in sorted(asked, key=ledger.steps.__getitem__)]


def test_priorities(serve: Callable[..., Server]) -> None:
    """The highest class first; the low one is not starved."""
    server = serve("--frontdoors=1", "--dispatchers=1", "--max-batch-items=1", echo=True)
    low, normal, high = pb.PRIORITY_LOW, pb.PRIORITY_NORMAL, pb.PRIORITY_HIGH
    order = order_of_answers(server, [low, 0, high, low, normal, high])
    assert [one for one in order if one != low] == [high, high, 0, normal]
    assert order[-1] == low, order  # one of them may have had its turn: one part of 21 is for the low class
    order = order_of_answers(server, [low] * 2 + [high] * 40)
    first_low = order.index(low)
    assert first_low <= 17 and order[first_low + 1 :].index(low) <= 17, order


def test_deadlines_behind_a_busy_dispatcher(serve: Callable[..., Server]) -> None:
    """Nobody waits for it longer than his time; only the server watches that."""
    chance = random.Random(3)

    async def one(stub: Any, ledger: Ledger, late_s: list[float]) -> None:
        allowed_us, start = chance.randrange(1000, 250_000), time.monotonic()
        end = await unary(stub, ledger, timeout_us=allowed_us)
        assert end in (EXPIRED, REFUSED)
        if end == EXPIRED:
            late_s.append(time.monotonic() - start - allowed_us / 1e6)

    async def scenario(server: Server, ledger: Ledger, late_s: list[float]) -> None:
        async with stub_to(server.address) as stub:
            with server.gate() as gate:
                first = await occupied(server, stub, ledger, gate)
                await asyncio.gather(*(one(stub, ledger, late_s) for _ in range(80)))
                assert not first.done()
            assert await first == OK

    def attempt() -> str:
        server = serve("--frontdoors=1", "--dispatchers=1", echo=True)
        ledger, late_s = Ledger(), list[float]()
        asyncio.run(scenario(server, ledger, late_s))
        ledger.check(EXPIRED, REFUSED)
        assert late_s
        server.until_idle()
        most_s = sorted(late_s)[len(late_s) * 9 // 10]  # a client on a busy machine is slow to look
        return "" if most_s < 0.5 else f"{most_s:.3f} s late"

    until_in_time(attempt, tries=3)


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
    """Half of the calls are cancelled at some moment: the others are answered, all slots come back."""
    server = shared_server(*TWO, echo=True)
    ledger, chance = Ledger(), random.Random(7)

    async def one(stub: Any) -> None:
        call = asyncio.create_task(unary(stub, ledger, SLOW + chance.randrange(3)))
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
