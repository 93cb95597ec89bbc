"""PredictStream and PredictBatch: answers as they finish, order, statuses of items, and clients that do not read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import grpc
import pytest
from busy import sees
from echo_dispatcher import SLOW
from ledger import Ledger, stub_to
from raw import DATA, EH, ES, HEADERS, PATH, WINDOW_UPDATE, Peer, block, frame, message, request, u32
from serving import PATIENCE_S, Server, until

from fastqps.v1 import predict_pb2 as pb
from fastqps.v1 import predict_pb2_grpc

IN_FLIGHT_MAX = 8


@pytest.fixture(scope="module")
def server(module_server: Callable[..., Server]) -> Server:
    return module_server(
        "--frontdoors=1", "--dispatchers=2", f"--max-stream-inflight={IN_FLIGHT_MAX}", "--max-batch-items=4", echo=True
    )


@pytest.fixture(autouse=True)
def idle(server: Server) -> Iterator[None]:
    yield
    server.until_idle()


async def test_answers_come_as_they_finish(server: Server) -> None:
    """A slow item does not hold up the ones behind it."""
    ledger, order = Ledger(), list[int]()
    async with stub_to(server.address) as stub:
        call = stub.PredictStream()
        with server.gate() as gate:
            await call.write(ledger.ask(gate.id))
            await sees(lambda: server.claimed(1), "the slow one runs")
            for _ in range(20):
                await call.write(ledger.ask())
                response = await call.read()
                ledger.answered(response.request_id, response)
                order.append(response.request_id)
        await call.done_writing()
        response = await call.read()
        ledger.answered(response.request_id, response)
        order.append(response.request_id)
        assert await call.read() is grpc.aio.EOF and await call.code() == grpc.StatusCode.OK
    ledger.check()
    assert order == [*range(1, 21), 0]


@pytest.mark.parametrize("items", [0, 1])
async def test_short_stream(server: Server, items: int) -> None:
    ledger = Ledger()
    async with stub_to(server.address) as stub:
        async for response in stub.PredictStream(iter([ledger.ask() for _ in range(items)])):
            ledger.answered(response.request_id, response)
    ledger.check()


async def test_bad_items_do_not_end_a_stream(server: Server) -> None:
    ledger = Ledger()
    bad = [
        (pb.PredictRequest(request_id=901), {3}),
        (pb.PredictRequest(request_id=902, text="a", model="none"), {5}),
        (pb.PredictRequest(request_id=903, token_ids={"ids": [99_999]}), {3}),
        (
            pb.PredictRequest(request_id=904, token_ids={"ids": [SLOW + 30]}, timeout_us=50_000),
            {4, 8},
        ),  # expired, or refused as a miss
    ]
    async with stub_to(server.address) as stub:

        async def asks() -> AsyncIterator[pb.PredictRequest]:
            for item, _ in bad:
                yield ledger.ask()
                yield item
            yield ledger.ask()

        statuses = {}
        async for response in stub.PredictStream(asks()):
            if response.request_id > 900:
                statuses[response.request_id] = response.status.code
                assert response.status.message
            else:
                ledger.answered(response.request_id, response)
        assert statuses.keys() == {item.request_id for item, _ in bad}
        assert all(statuses[item.request_id] in codes for item, codes in bad), statuses
    ledger.check()


async def test_batch_order(server: Server) -> None:
    """Answers stand in the order of the items, whichever is ready first."""
    ledger = Ledger()
    async with stub_to(server.address) as stub:
        requests = [ledger.ask(*([SLOW + 20] if i % 7 == 0 else [])) for i in range(60)]
        answer = await stub.PredictBatch(pb.PredictBatchRequest(items=requests))
        assert [item.request_id for item in answer.items] == [r.request_id for r in requests]
        for item in answer.items:
            ledger.answered(item.request_id, item)
    ledger.check()


# ---- back-pressure, with a client that does what no library does


def open_stream(peer: Peer) -> None:
    peer.send(frame(HEADERS, EH, 1, block(request(PATH + "PredictStream"))))


def items(ledger: Ledger, count: int, *middle: int, **fields: Any) -> bytes:
    return b"".join(message(ledger.ask(*middle, **fields).SerializeToString()) for _ in range(count))


def read_answers(peer: Peer, ledger: Ledger) -> None:
    for body in peer.answer(1).messages:
        response = pb.PredictResponse.FromString(body)
        ledger.answered(response.request_id, response)
    assert peer.answers[1].status == 0
    ledger.check()


def test_items_in_flight_are_bounded(server: Server) -> None:
    """More than the limit is not accepted, and the client is not given more window for it."""
    ledger = Ledger()
    with Peer(server.address) as peer, server.gate() as gate:
        open_stream(peer)
        window = peer.settings[4]
        peer.send_data(1, items(ledger, 3 * IN_FLIGHT_MAX, gate.id), flags=0)
        until(lambda: server.work()["fastqps_slots_used"] == IN_FLIGHT_MAX, "as many as may")
        peer.linger(0.2)
        assert server.work()["fastqps_slots_used"] == IN_FLIGHT_MAX, "and no more"
        assert peer.window(1) < window  # what is not accepted has not been given back
        gate.open()
        peer.send(frame(DATA, ES, 1))
        read_answers(peer, ledger)


def test_client_that_does_not_read(server: Server) -> None:
    """Its answers pile up to a limit, its requests wait unread; it holds no slot, and others are served."""
    ledger, count = Ledger(), 3000
    body = items(ledger, count, output={"dimensions": 384})
    with Peer(server.address) as peer:
        open_stream(peer)
        at = 0

        def held() -> int:
            return sum(len(answer.data) for answer in peer.answers.values())

        def stands_still() -> bool:
            """Sends as far as the server lets it. What comes meanwhile is WINDOW_UPDATEs, and answers for which the
            connection's window was open at the start."""
            nonlocal at
            room = min(peer.window(1), len(body) - at)
            if room > 0:
                peer.send_data(1, body[at : at + room], flags=0)
                at += room
            peer.linger(0.1)
            return not room and held() == 65535

        until(stands_still, "no window is left on either side")
        server.until_idle()
        answered = server.metrics()["fastqps_items_total{OK,minilm}"]
        with grpc.insecure_channel(server.address) as channel:
            other = predict_pb2_grpc.PredictServiceStub(channel)
            assert other.Predict(pb.PredictRequest(text="a", request_id=4), timeout=PATIENCE_S).request_id == 4
        assert server.metrics()["fastqps_items_total{OK,minilm}"] == answered + 1  # the stream stands still
        assert held() == 65535
        # Then it reads all, and each request is answered once.
        peer.send(frame(WINDOW_UPDATE, 0, 0, u32(1 << 28)), frame(WINDOW_UPDATE, 0, 1, u32(1 << 28)))
        peer.send_data(1, body[at:]) if at < len(body) else peer.send(frame(DATA, ES, 1))
        for found in peer.answer(1).messages:
            response = pb.PredictResponse.FromString(found)
            assert len(response.embedding.values) == 384
            del response.embedding.values[4:]
            ledger.answered(response.request_id, response)
        ledger.check()
