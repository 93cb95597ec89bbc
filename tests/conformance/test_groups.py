"""Calls of many items, while others of their kind are cancelled: nobody gets a neighbour's answers."""

from __future__ import annotations

from echo_dispatcher import echo
from raw import (
    CANCEL,
    PATH,
    RST_STREAM,
    Peer,
    block,
    frame,
    message,
    request,
    u32,
    whole_call,
)
from serving import Server, until

from fastqps.v1 import predict_pb2 as pb

ITEMS = 8


def batch(first: int, *extra: int) -> pb.PredictBatchRequest:
    """Items whose answers can only be theirs."""
    items = [
        pb.PredictRequest(token_ids={"ids": [first + i, *extra]}, request_id=first + i, output={"normalize": False})
        for i in range(ITEMS)
    ]
    return pb.PredictBatchRequest(items=items)


def ask(peer: Peer, stream: int, method: str, *messages: bytes) -> None:
    body = b"".join(message(m) for m in messages)
    peer.send(whole_call(stream, body, block(request(PATH + method))))


def test_cancelled_while_all_its_items_are_queued(server: Server, peer: Peer) -> None:
    """A batch and a stream whose items nobody has touched are cancelled; the calls after them keep apart."""
    with server.gate() as gate:
        # Two full steps, one for each dispatcher; of a size that none had before, so that nobody expects their end and
        # claims ahead for it.
        ask(peer, 1, "PredictBatch", batch(1000, *[7] * 60, gate.id).SerializeToString())
        until(lambda: server.claimed(ITEMS), "its claims")
        ask(peer, 3, "PredictBatch", batch(2000).SerializeToString())
        ask(peer, 5, "PredictStream", *(item.SerializeToString() for item in batch(3000).items))
        until(lambda: server.work()["fastqps_requests_waiting"] == 2 * ITEMS, "all wait")
        peer.send(*(frame(RST_STREAM, 0, stream, u32(CANCEL)) for stream in (3, 5)))
        until(lambda: server.work()["fastqps_slots_used"] == ITEMS, "their slots")
    streams = {stream: batch(1000 * stream) for stream in range(7, 15, 2)}
    for stream, asked in streams.items():
        ask(peer, stream, "PredictBatch", asked.SerializeToString())
    for stream, asked in streams.items():
        answer = peer.answer(stream)
        assert answer.status == 0, answer
        found = pb.PredictBatchResponse.FromString(answer.data[5:])
        assert [item.request_id for item in found.items] == [item.request_id for item in asked.items]
        for item, sent in zip(found.items, asked.items, strict=True):
            assert list(item.embedding.values[:4]) == echo(sent.token_ids.ids)
    assert peer.answer(1).status == 0
