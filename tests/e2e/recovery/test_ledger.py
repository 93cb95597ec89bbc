"""The ledger itself: it must find what it is there to find."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from echo_dispatcher import echo
from ledger import EXPIRED, Ledger, channel_to
from raw import SETTINGS, frame
from serving import PATIENCE_S

from fastqps.v1 import predict_pb2 as pb


def answer(request: pb.PredictRequest, **changes: object) -> pb.PredictResponse:
    ids = list(request.token_ids.ids)
    values = {"request_id": request.request_id, "embedding": {"values": echo(ids)}, "usage": {"input_tokens": len(ids)}}
    return pb.PredictResponse(**{**values, **changes})  # type: ignore[arg-type]


# What two requests get, one behind the other: the request, and what comes for it.
Pairs = list[tuple[pb.PredictRequest, pb.PredictResponse]]
FAULTS: dict[str, Callable[[pb.PredictRequest, pb.PredictRequest], Pairs]] = {
    "lost": lambda a, b: [(a, answer(a))],
    "twice": lambda a, b: [(a, answer(a)), (b, answer(b)), (a, answer(a))],
    "swapped": lambda a, b: [(a, answer(b, request_id=a.request_id)), (b, answer(b))],
    "other id": lambda a, b: [(a, answer(a, request_id=b.request_id)), (b, answer(b))],
    "other length": lambda a, b: [(a, answer(a, usage={"input_tokens": 99})), (b, answer(b))],
    "failed": lambda a, b: [(a, answer(a, status={"code": 13})), (b, answer(b))],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_found(fault: str) -> None:
    ledger = Ledger()
    for request, response in FAULTS[fault](ledger.ask(), ledger.ask()):
        ledger.answered(request.request_id, response)
    with pytest.raises(AssertionError):
        ledger.check(EXPIRED)


def test_sound_ledger() -> None:
    ledger = Ledger()
    first, second = ledger.ask(), ledger.ask(30_005)
    ledger.answered(first.request_id, answer(first))
    ledger.ended(second.request_id, EXPIRED)
    ledger.check(EXPIRED)
    assert first.token_ids != second.token_ids


async def test_a_channel_waits_for_a_late_server() -> None:
    """One that takes 0.4 s to say its first word, as on a machine that stood still: no call may fail of that."""
    connections: list[asyncio.StreamWriter] = []

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        await asyncio.sleep(0.4)
        writer.write(frame(SETTINGS, 0, 0))

    server = await asyncio.start_server(late, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    async with channel_to(f"{host}:{port}") as channel:
        await asyncio.wait_for(channel.channel_ready(), PATIENCE_S)
    for writer in connections:
        writer.close()
    server.close()
    assert len(connections) == 1
