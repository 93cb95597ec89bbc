"""How calls end early: by the client at every moment of their life, and by their deadline at every stage."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator

import pytest
from gates import Gate
from neighbour import until_read
from raw import (
    BLOCK,
    BODY,
    CANCEL,
    DATA,
    EH,
    ES,
    HEADERS,
    PATH,
    RST_STREAM,
    SETTINGS,
    Answer,
    Peer,
    block,
    check_good,
    frame,
    message,
    request,
    setting,
    u32,
    whole_call,
)
from serving import Server, until
from test_grpc import DEADLINE_EXCEEDED, OK, RESOURCE_EXHAUSTED, check_error
from tries import until_in_time

from fastqps.v1 import predict_pb2 as pb

GRACE_S = 0.5  # beyond a deadline, in one of some tries
MESSAGE = message(BODY)
OPEN = frame(HEADERS, EH, 1, BLOCK)
RESET = frame(RST_STREAM, 0, 1, u32(CANCEL))
IDS = pb.PredictRequest(token_ids={"ids": [101, 102]}, request_id=7).SerializeToString()  # nobody has to tokenize it


def held(gate: Gate) -> bytes:
    """A request whose step takes until the gate is opened."""
    return pb.PredictRequest(token_ids={"ids": [101, gate.id, 102]}).SerializeToString()


def ask(peer: Peer, stream: int, body: bytes, timeout: str = "") -> None:
    headers = request(PATH + "Predict", *([("grpc-timeout", timeout)] if timeout else []))
    peer.send(whole_call(stream, message(body), block(headers)))


def occupy(server: Server, peer: Peer, gate: Gate, streams: Iterator[int]) -> None:
    """Both dispatchers run a step that the gate holds."""
    for n in (1, 2):
        ask(peer, next(streams), held(gate))
        until(lambda n=n: server.claimed(n), "a claim")


# ---- T14: cancels


def with_its_end(server: Server, peer: Peer, gate: Gate) -> None:
    """In one write: the server sees the request and its cancel in the same read."""
    peer.send(OPEN, frame(DATA, ES, 1, MESSAGE), RESET)


def in_the_queue(server: Server, peer: Peer, gate: Gate) -> None:
    occupy(server, peer, gate, iter((101, 103)))
    ask(peer, 105, IDS)
    until(lambda: server.work()["fastqps_requests_waiting"] == 1, "one waits")


def on_the_device(server: Server, peer: Peer, gate: Gate) -> None:
    occupy(server, peer, gate, iter((101, 103)))


def before_its_answer_is_read(server: Server, peer: Peer, gate: Gate) -> None:
    peer.send(frame(SETTINGS, 0, 0, setting(4, 10)), OPEN, frame(DATA, ES, 1, MESSAGE))
    peer.until(lambda: 1 in peer.answers and len(peer.answers[1].data) == 10, "10 bytes")


def in_a_stream(server: Server, peer: Peer, gate: Gate) -> None:
    ids = [pb.PredictRequest(text=str(i)).SerializeToString() for i in range(20)]
    peer.send(frame(HEADERS, EH, 1, block(request(PATH + "PredictStream"))))
    peer.send(frame(DATA, 0, 1, b"".join(message(body) for body in [*ids, held(gate)])))


def in_a_batch(server: Server, peer: Peer, gate: Gate) -> None:
    items = [pb.PredictRequest.FromString(held(gate)) for _ in range(9)]
    peer.send(frame(HEADERS, EH, 1, block(request(PATH + "PredictBatch"))))
    peer.send(frame(DATA, ES, 1, message(pb.PredictBatchRequest(items=items).SerializeToString())))
    until(lambda: server.work()["fastqps_slots_used"] == 9, "its slots")


MOMENTS = [
    with_its_end,
    in_the_queue,
    on_the_device,
    before_its_answer_is_read,
    in_a_stream,
    in_a_batch,
]


def by_reset(peer: Peer) -> None:
    peer.send(*(frame(RST_STREAM, 0, stream, u32(CANCEL)) for stream in open_streams(peer)))
    peer.send(frame(SETTINGS, 0, 0, setting(4, 65535)))
    until_read(peer, 201)


def by_end_of_input(peer: Peer) -> None:
    peer.socket.close()


def by_tcp_reset(peer: Peer) -> None:
    peer.abort()


def open_streams(peer: Peer) -> list[int]:
    """Streams that a moment has opened and that have not ended."""
    return [stream for stream in peer.sent_streams if not peer.stopped(stream)]


@pytest.mark.parametrize("way", [by_reset, by_end_of_input, by_tcp_reset])
@pytest.mark.parametrize("moment", MOMENTS)
def test_cancel(
    server: Server, peer: Peer, moment: Callable[[Server, Peer, Gate], None], way: Callable[[Peer], None]
) -> None:
    """Whenever the client leaves: the slot comes back, and nothing is written to the stream any more."""
    with server.gate() as gate:
        moment(server, peer, gate)
        cancelled = open_streams(peer)
        way(peer)
    server.until_idle()
    if way is by_reset:
        check_good(peer.call(203))
        assert cancelled and not any(peer.answers.get(stream, Answer()).ended for stream in cancelled)


# ---- T15: deadlines


def check_nothing_behind(server: Server, peer: Peer, stream: int) -> None:
    """A status is the last of its stream (Peer holds that), also when the step has ended, and the connection serves."""
    server.until_idle()
    check_good(peer.call(stream))


def late(answer: Answer, asked_s: float, timeout_ms: int) -> str:
    """How late an answer came, where that is more than a small grace."""
    late_s = answer.ended_at - asked_s - timeout_ms / 1000
    return "" if late_s < GRACE_S else f"{late_s:.3f} s late"


def test_deadline_in_the_queue(server: Server, peer: Peer) -> None:
    streams, timeouts_ms = itertools.count(1, 2), iter((100, 1000, 10_000))  # longer ones behind longer steps

    def attempt() -> str:
        timeout_ms = next(timeouts_ms)
        with server.gate() as gate:
            occupy(server, peer, gate, streams)
            stream, asked_s = next(streams), time.monotonic()
            ask(peer, stream, IDS, f"{timeout_ms}m")
            answer = peer.answer(stream)
        check_nothing_behind(server, peer, next(streams))
        if answer.status == RESOURCE_EXHAUSTED:  # a step before took longer than this one's time
            return answer.text
        check_error(answer, DEADLINE_EXCEEDED, "deadline", "stage queue")
        return late(answer, asked_s, timeout_ms)

    until_in_time(attempt, tries=3)


@pytest.mark.parametrize("whose", ["call", "item"])
def test_deadline_on_the_device(server: Server, peer: Peer, whose: str) -> None:
    """The call's deadline, or the item's own where it is the earlier one."""
    streams, timeouts_ms = itertools.count(1, 4), iter((100, 1000, 10_000))

    def attempt() -> str:
        stream, timeout_ms = next(streams), next(timeouts_ms)
        with server.gate() as gate:
            body = pb.PredictRequest.FromString(held(gate))
            if whose == "item":
                body.timeout_us = 1000 * timeout_ms
            asked_s = time.monotonic()
            ask(peer, stream, body.SerializeToString(), "60S" if whose == "item" else f"{timeout_ms}m")
            answer = peer.answer(stream)
        check_error(answer, DEADLINE_EXCEEDED, "deadline")
        check_nothing_behind(server, peer, stream + 2)
        return late(answer, asked_s, timeout_ms) if "stage device" in answer.text else answer.text

    until_in_time(attempt, tries=3)


def test_deadline_while_claimed(shared_server: Callable[..., Server]) -> None:
    """Dispatchers claim a request, and then wait for more."""
    lingering = shared_server("--frontdoors=1", "--dispatchers=1", "--max-batch-delay=300ms", echo=True)
    streams = itertools.count(1, 2)

    def attempt() -> str:
        stream = next(streams)
        ask(peer, stream, IDS, "100m")
        answer = peer.answer(stream)
        if answer.status == OK:
            return "answered"
        check_error(answer, DEADLINE_EXCEEDED, "deadline")
        lingering.until_idle()
        return "" if "stage gather" in answer.text else answer.text

    with Peer(lingering.address) as peer:
        until_in_time(attempt)
        check_nothing_behind(lingering, peer, next(streams))


def test_deadline_of_an_unread_answer(server: Server, peer: Peer) -> None:
    """An answer that the client's window holds back is given up when its time is over."""
    peer.send(frame(SETTINGS, 0, 0, setting(4, 0)))
    ask(peer, 1, BODY, "200m")
    answer = peer.answer(1)
    assert answer.ended and answer.status == DEADLINE_EXCEEDED and not answer.data, answer
    server.until_idle()
