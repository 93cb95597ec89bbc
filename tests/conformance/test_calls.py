"""How calls end early: by the client at every moment of their life, and by their deadline at every stage."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from echo_dispatcher import SLOW
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
    WINDOW_UPDATE,
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

from fastqps.v1 import predict_pb2 as pb

MESSAGE = message(BODY)
OPEN = frame(HEADERS, EH, 1, BLOCK)
RESET = frame(RST_STREAM, 0, 1, u32(CANCEL))
STEP_S = 0.4


def slow(seconds: float = STEP_S, request_id: int = 0) -> bytes:
    """A request whose step takes that long."""
    ids = [101, SLOW + round(seconds * 100), 102]
    return pb.PredictRequest(token_ids={"ids": ids}, request_id=request_id).SerializeToString()


def ask(peer: Peer, stream: int, body: bytes, timeout: str = "") -> None:
    headers = request(PATH + "Predict", *([("grpc-timeout", timeout)] if timeout else []))
    peer.send(whole_call(stream, message(body), block(headers)))


def let_admission_forget(peer: Peer) -> None:
    """For twice a step's time after steps ended, less time than they took may be refused; here it is to be accepted."""
    peer.linger(2 * STEP_S + 0.5)


def occupy(server: Server, peer: Peer) -> None:
    """Both dispatchers run a step of STEP_S, on streams 101 and 103."""
    for n, stream in enumerate((101, 103), start=1):
        ask(peer, stream, slow())
        until(lambda n=n: server.claimed(n), "a claim")


# ---- T14: cancels


def at_headers(server: Server, peer: Peer) -> None:
    peer.send(OPEN)


def inside_the_prefix(server: Server, peer: Peer) -> None:
    peer.send(OPEN, frame(DATA, 0, 1, MESSAGE[:3]))


def inside_the_message(server: Server, peer: Peer) -> None:
    peer.send(OPEN, frame(DATA, 0, 1, MESSAGE[:-3]))


def before_the_end(server: Server, peer: Peer) -> None:
    peer.send(OPEN, frame(DATA, 0, 1, MESSAGE))


def with_its_end(server: Server, peer: Peer) -> None:
    """In one write: the server sees the request and its cancel in the same read."""
    peer.send(OPEN, frame(DATA, ES, 1, MESSAGE), RESET)


def in_the_queue(server: Server, peer: Peer) -> None:
    occupy(server, peer)
    ask(peer, 105, BODY)
    until(lambda: server.work()["fastqps_requests_waiting"] == 1, "one waits")


def on_the_device(server: Server, peer: Peer) -> None:
    occupy(server, peer)


def before_its_answer_is_read(server: Server, peer: Peer) -> None:
    peer.send(frame(SETTINGS, 0, 0, setting(4, 10)), OPEN, frame(DATA, ES, 1, MESSAGE))
    peer.until(lambda: 1 in peer.answers and len(peer.answers[1].data) == 10, "10 bytes")


def in_a_stream(server: Server, peer: Peer) -> None:
    ids = [pb.PredictRequest(text=str(i)).SerializeToString() for i in range(20)]
    peer.send(frame(HEADERS, EH, 1, block(request(PATH + "PredictStream"))))
    peer.send(frame(DATA, 0, 1, b"".join(message(body) for body in [*ids, slow()])))


def in_a_batch(server: Server, peer: Peer) -> None:
    items = [pb.PredictRequest.FromString(slow()) for _ in range(9)]
    peer.send(frame(HEADERS, EH, 1, block(request(PATH + "PredictBatch"))))
    peer.send(frame(DATA, ES, 1, message(pb.PredictBatchRequest(items=items).SerializeToString())))
    until(lambda: server.work()["fastqps_slots_used"] == 9, "its slots")


MOMENTS = [
    at_headers,
    inside_the_prefix,
    inside_the_message,
    before_the_end,
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
    check_good(peer.call(201))
    cancelled = [peer.answers.get(stream, Answer()) for stream in open_streams(peer)]
    assert not any(answer.ended for answer in cancelled)


def by_end_of_input(peer: Peer) -> None:
    peer.socket.close()


def by_tcp_reset(peer: Peer) -> None:
    peer.abort()


def open_streams(peer: Peer) -> list[int]:
    """Streams that a moment may have opened and that have not ended. Those of calls not made are closed or idle."""
    return [stream for stream in peer.sent_streams if not peer.stopped(stream) and stream < 200]


@pytest.mark.parametrize("way", [by_reset, by_end_of_input, by_tcp_reset])
@pytest.mark.parametrize("moment", MOMENTS)
def test_cancel(
    server: Server, peer: Peer, moment: Callable[[Server, Peer], None], way: Callable[[Peer], None]
) -> None:
    """Whenever the client leaves: the slot comes back, and nothing is written to the stream any more."""
    moment(server, peer)
    way(peer)
    server.until_idle()
    if way is by_reset:
        peer.linger(0.05)
        check_good(peer.call(203))


def test_cancelled_streams_are_not_written_to(server: Server, peer: Peer) -> None:
    """Half of many calls are cancelled while they run, and their places are taken at once: each answer is its own."""
    for i in range(200):
        ask(peer, 1 + 2 * i, pb.PredictRequest(text="x", request_id=i).SerializeToString())
        if i % 2:
            peer.send(frame(RST_STREAM, 0, 1 + 2 * i, u32(CANCEL)))
    peer.send(frame(WINDOW_UPDATE, 0, 0, u32(1 << 24)))
    for i in range(0, 200, 2):
        check_good(peer.answer(1 + 2 * i), i)
    for i in range(1, 200, 2):
        answer = peer.answers.get(1 + 2 * i)
        if answer and answer.ended:  # the answer was faster
            check_good(answer, i)
    server.until_idle()
    assert peer.goaway is None


# ---- T15: deadlines


def check_expired(peer: Peer, stream: int, stage: str) -> None:
    """One status, and nothing behind it."""
    check_error(peer.answer(stream), DEADLINE_EXCEEDED, "deadline", f"stage {stage}")
    peer.linger(STEP_S + 0.2)
    check_good(peer.call(stream + 200))


def test_deadline_in_the_queue(server: Server, peer: Peer) -> None:
    let_admission_forget(peer)
    let_admission_forget(peer)  # entries of cancelled requests may still count as waiting: be well past any estimate
    occupy(server, peer)
    ask(peer, 105, BODY, "50m")
    check_expired(peer, 105, "queue")
    server.until_idle()


def test_deadline_on_the_device(server: Server, peer: Peer) -> None:
    let_admission_forget(peer)
    ask(peer, 1, slow(), "100m")
    check_expired(peer, 1, "device")
    server.until_idle()


def test_deadline_of_the_item(server: Server, peer: Peer) -> None:
    """The item's own time, where it is the earlier one."""
    let_admission_forget(peer)
    body = pb.PredictRequest.FromString(slow())
    body.timeout_us = 100_000
    ask(peer, 1, body.SerializeToString(), "5S")
    check_expired(peer, 1, "device")
    server.until_idle()


@pytest.fixture(scope="module")
def lingering() -> Iterator[Server]:
    """A server whose dispatchers claim a request and then wait for more."""
    server = Server("--frontdoors=1", "--dispatchers=1", "--max-batch-delay=300ms", echo=True)
    try:
        yield server
        server.stop()
    finally:
        server.kill()


def test_deadline_while_claimed(lingering: Server) -> None:
    with Peer(lingering.address) as peer:
        ask(peer, 1, BODY, "100m")
        check_expired(peer, 1, "gather")
        lingering.until_idle()


def test_deadline_while_received(peer: Peer) -> None:
    """The message does not come in time; the answer comes when the time is over, not later."""
    start = time.monotonic()
    peer.send(frame(HEADERS, EH, 1, block(request(PATH + "Predict", ("grpc-timeout", "100m")))))
    peer.send(frame(DATA, 0, 1, MESSAGE[:-1]))
    check_error(peer.answer(1), DEADLINE_EXCEEDED, "deadline")
    assert 0.1 <= time.monotonic() - start < 0.5
    check_good(peer.call(3))


def test_deadline_of_an_unread_answer(server: Server, peer: Peer) -> None:
    """An answer that the client's window holds back is given up when its time is over."""
    let_admission_forget(peer)
    peer.send(frame(SETTINGS, 0, 0, setting(4, 0)))
    ask(peer, 1, BODY, "200m")
    answer = peer.answer(1)
    assert answer.ended and answer.status == DEADLINE_EXCEEDED and not answer.data, answer
    server.until_idle()


def answers_around_deadlines(peer: Peer, first: int) -> list[int]:
    """Two dispatchers, four items a step: eight answers each 100 ms, whose clients give up at about that time."""
    for i in range(24):
        timeout_ms = 100 * (1 + i // 8) + 4 * (i % 8 - 2)
        ask(peer, first + 2 * i, slow(0.1, request_id=i), f"{timeout_ms}m")
    statuses = []
    for i in range(24):
        answer = peer.answer(first + 2 * i)
        if answer.status == OK:
            check_good(answer, i)
        elif answer.status == RESOURCE_EXHAUSTED:  # its batch would have taken too long
            check_error(answer, RESOURCE_EXHAUSTED, "would miss its deadline")
        else:
            check_error(answer, DEADLINE_EXCEEDED, "deadline")
        statuses.append(answer.status)
    return statuses


def test_deadline_meets_answer(peer: Peer) -> None:
    """Deadlines around the moment of the answer: one status each, whichever comes first."""
    statuses: list[int] = []
    for turn in range(3):  # on a busy machine all of them may be late
        let_admission_forget(peer)
        statuses = answers_around_deadlines(peer, 1 + 48 * turn)
        if OK in statuses:
            break
    assert OK in statuses and set(statuses) != {OK}, statuses
    peer.linger(0.2)  # Peer holds that nothing comes behind an end
