"""Bursts that nobody may be punished for, a door without room, and the waits of production. Floods, and clients that
take their time: csrc/tests/transport/test_lifetime.cpp."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import psutil
import pytest
from echo_dispatcher import SLOW
from neighbour import Neighbour, until_read
from raw import (
    BLOCK,
    BODY,
    CANCEL,
    DATA,
    EH,
    ENHANCE_YOUR_CALM,
    HEADERS,
    PATH,
    RST_STREAM,
    WINDOW_UPDATE,
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
from serving import PATIENCE_S, Server, until
from test_grpc import DEADLINE_EXCEEDED

from fastqps.v1 import predict_pb2 as pb

SLACK_S = 30.0  # on a busy machine
FLOODS = "fastqps_transport_events_total{floods,0}"


def test_deadlines_that_pass_are_no_flood(server: Server, peer: Peer) -> None:
    """4,000 calls whose deadlines of 20 ms pass while steps hold all up; the client resets them."""
    before = server.metrics()[FLOODS]
    busy, short = (pb.PredictRequest(token_ids={"ids": [1, i]}, output={"dimensions": 4}) for i in (SLOW + 30, 6))
    late = block(request(PATH + "Predict", ("grpc-timeout", "20m")))
    peer.send(frame(WINDOW_UPDATE, 0, 0, u32(1 << 24)))  # some may be answered
    streams = iter(range(1, 1 << 21, 2))
    for _ in range(10):
        for _ in range(2):  # two dispatchers
            peer.send(whole_call(next(streams), message(busy.SerializeToString())))
        hurried = [next(streams) for _ in range(400)]
        peer.send(*(whole_call(one, message(short.SerializeToString()), late) for one in hurried))
        until_read(peer, next(streams))
        peer.linger(0.02)
        peer.send(*(frame(RST_STREAM, 0, one, u32(CANCEL)) for one in hurried))
        peer.linger(0.2)
        assert peer.goaway is None and not peer.closed, peer
        peer.answers.clear()
    server.until_idle()
    peer.answers.clear()
    check_good(peer.call(next(streams)))
    assert server.metrics()[FLOODS] == before


def test_no_descriptors_left(server: Server, neighbour: Neighbour) -> None:
    """A door that may open no more serves whom it has, waits without haste, and takes the others in later."""
    door = server.child("frontdoor 0")
    kind = psutil.RLIMIT_NOFILE
    until(lambda: server.connections() == [1], "the neighbour's connection alone")
    limits = door.rlimit(kind)
    key = "fastqps_transport_events_total{accept_errors,0}"
    before = server.metrics()[key]
    door.rlimit(kind, (door.num_fds(), limits[1]))
    waiting: list[Peer] = []
    try:
        start = time.monotonic()
        peer = threading.Thread(target=lambda: waiting.append(Peer(server.address)))
        peer.start()
        until(lambda: server.metrics()[key] > before, "an error of accept")
        for _ in range(20):
            neighbour.check()
            time.sleep(0.02)
        errors = server.metrics()[key] - before
        assert errors <= 10 * (time.monotonic() - start) + 2, "it spins"
        assert not waiting
    finally:
        door.rlimit(kind, limits)
    peer.join(PATIENCE_S)
    with waiting[0]:
        check_good(waiting[0].call(1))


@pytest.mark.nightly  # test_lifetime.cpp has each wait, and others
@pytest.mark.timeout(300)
def test_who_does_not_go_on_is_ended(serve: Callable[..., Server]) -> None:
    """A client that has not said hello, a header block, a message, and an answer for which there is no window: each
    ends after its own time, all at once."""
    server = serve("--frontdoors=1", "--dispatchers=1", "--default-timeout=0s", echo=True)
    with (
        Peer(server.address, hello=b"") as silent,
        Peer(server.address) as heading,
        Peer(server.address) as asking,
        Peer(server.address, setting(4, 0)) as blocked,
    ):
        start = time.monotonic()
        heading.send(frame(HEADERS, 0, 1, BLOCK[:20]))
        asking.send(frame(HEADERS, EH, 1, BLOCK), frame(DATA, 0, 1, message(BODY)[:10]))
        blocked.send(whole_call(1, message(BODY)))
        for peer, goaway in ((silent, None), (heading, ENHANCE_YOUR_CALM)):
            peer.end(10 + SLACK_S)
            assert peer.closed and peer.goaway == goaway and time.monotonic() - start > 9, peer
        answer = asking.answer(1, 30 + SLACK_S)
        assert answer.status == DEADLINE_EXCEEDED and answer.ended_at - start > 29
        ended = blocked.answer(1, 60 + SLACK_S)
        assert ended.reset == CANCEL and ended.reset_at - start > 59
        assert blocked.goaway is None and not blocked.closed
