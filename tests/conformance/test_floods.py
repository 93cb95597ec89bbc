"""Clients that do too much of what is allowed, beside others that are served meanwhile, and bursts that nobody may be
punished for. Every other flood: csrc/tests/transport/test_lifetime.cpp.
"""

from __future__ import annotations

import threading
import time

import psutil
import pytest
from beside import CALL, neighbours_served, opened, pour, rapid_reset
from echo_dispatcher import SLOW
from neighbour import Neighbour, until_read
from raw import (
    CANCEL,
    ENHANCE_YOUR_CALM,
    PATH,
    RST_STREAM,
    WINDOW_UPDATE,
    Peer,
    block,
    check_good,
    frame,
    message,
    request,
    u32,
    whole_call,
)
from serving import PATIENCE_S, Server, until

from fastqps.v1 import predict_pb2 as pb

FLOODS = "fastqps_transport_events_total{floods,0}"


@pytest.mark.parametrize("reads", [True, False], ids=["reading", "not reading"])
def test_flood(server: Server, neighbour: Neighbour, peer: Peer, reads: bool) -> None:
    """The connection ends with ENHANCE_YOUR_CALM, and is counted; who does not read may lose the words."""
    before = server.metrics()[FLOODS]
    with neighbours_served(server, neighbour):
        pour(peer, rapid_reset(), reads)
        peer.end()
    assert peer.closed
    until(lambda: server.metrics()[FLOODS] == before + 1, "one flood more is counted")
    assert peer.goaway in ((ENHANCE_YOUR_CALM,) if reads else (ENHANCE_YOUR_CALM, None)), peer
    if peer.goaway is not None:
        assert peer.goaway_text == b"too many resets"
    server.until_idle()


def test_deadlines_that_pass_are_no_flood(server: Server, peer: Peer) -> None:
    """4,000 calls whose deadlines of 20 ms pass while steps hold all up; the client resets them."""
    before = server.metrics()[FLOODS]
    busy = pb.PredictRequest(token_ids={"ids": [1, SLOW + 30]}).SerializeToString()
    late = block(request(PATH + "Predict", ("grpc-timeout", "20m")))
    peer.send(frame(WINDOW_UPDATE, 0, 0, u32(1 << 24)))  # some may be answered
    streams = opened(1 << 20)
    for _ in range(10):
        for _ in range(2):  # two dispatchers
            peer.send(whole_call(next(streams), message(busy)))
        hurried = [next(streams) for _ in range(400)]
        peer.send(*(whole_call(one, CALL, late) for one in hurried))
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
