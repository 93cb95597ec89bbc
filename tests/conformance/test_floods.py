"""Clients that do too much of what is allowed: each comes to the end that is meant for it, in bounded memory, and the
others are served meanwhile. What nobody may be punished for is at the end.
"""

from __future__ import annotations

import threading
import time

import psutil
import pytest
from echo_dispatcher import SLOW
from floods import CALL, FLOODS, floods, neighbours_served, opened, pour
from neighbour import Neighbour, until_read
from raw import (
    CANCEL,
    ENHANCE_YOUR_CALM,
    PATH,
    PING,
    RST_STREAM,
    WINDOW_MAX,
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

from fastqps.v1 import predict_pb2 as pb


@pytest.mark.parametrize("reads", [True, False], ids=["reading", "not reading"])
@pytest.mark.parametrize("case", FLOODS)
def test_flood(server: Server, neighbour: Neighbour, peer: Peer, case: str, reads: bool) -> None:
    """The connection ends with ENHANCE_YOUR_CALM, and is counted; who does not read may lose the words."""
    before = floods(server)
    frames, text = FLOODS[case]
    with neighbours_served(server, neighbour):
        pour(peer, frames(), reads)
        peer.end()
    assert peer.closed
    until(lambda: floods(server) == before + 1, "one flood more is counted")
    assert peer.goaway in ((ENHANCE_YOUR_CALM,) if reads else (ENHANCE_YOUR_CALM, None)), peer
    if peer.goaway is not None:
        assert peer.goaway_text == text
    server.until_idle()


def test_answers_that_nobody_reads(server: Server, neighbour: Neighbour) -> None:
    """As many calls as may be, from a client that does not read for a while: the server stops reading it, keeps little,
    and later it gets everything."""
    count, body = 1000, message(pb.PredictRequest(text="a", request_id=7).SerializeToString())
    with Peer(server.address, setting(4, WINDOW_MAX)) as peer:
        peer.send(frame(WINDOW_UPDATE, 0, 0, u32(WINDOW_MAX - 65535)))
        with neighbours_served(server, neighbour):
            for stream in opened(count):
                peer.send(whole_call(stream, body))
            time.sleep(0.5)
        for stream in opened(count):
            check_good(peer.answer(stream))
        assert peer.goaway is None


# ---- T19: bursts that are no floods


def test_deadlines_that_pass_are_no_flood(server: Server, peer: Peer) -> None:
    """4,000 calls whose deadlines of 20 ms pass while steps hold all up; the client resets them."""
    before = floods(server)
    busy = pb.PredictRequest(token_ids={"ids": [1, SLOW + 30]}).SerializeToString()
    late = block(request(PATH + "Predict", ("grpc-timeout", "20m")))
    peer.send(frame(WINDOW_UPDATE, 0, 0, u32(1 << 24)))  # some may be answered
    stream = 1
    for _ in range(10):
        for _ in range(2):  # two dispatchers
            peer.send(whole_call(stream, message(busy)))
            stream += 2
        streams = [stream + 2 * i for i in range(400)]
        stream = streams[-1] + 2
        peer.send(*(whole_call(one, CALL, late) for one in streams))
        until_read(peer, stream)
        stream += 2
        peer.linger(0.02)
        peer.send(*(frame(RST_STREAM, 0, one, u32(CANCEL)) for one in streams))
        peer.linger(0.2)
        assert peer.goaway is None and not peer.closed, peer
        peer.answers.clear()
    server.until_idle()
    peer.answers.clear()
    check_good(peer.call(stream))
    assert floods(server) == before


def test_resets_behind_answers_are_no_flood(server: Server, peer: Peer) -> None:
    """RST_STREAM after each of 5,000 answers, as clients send that do not care for trailers."""
    before = floods(server)
    for first in range(1, 10_000, 200):
        streams = range(first, first + 200, 2)
        peer.send(*(whole_call(one, CALL) for one in streams))
        for one in streams:
            check_good(peer.answer(one))
        data = sum(len(peer.answers[one].data) for one in streams)
        peer.send(*(frame(RST_STREAM, 0, one, u32(CANCEL)) for one in streams))
        peer.send(frame(WINDOW_UPDATE, 0, 0, u32(data)))
    check_good(peer.call(10_001))
    assert peer.goaway is None and floods(server) == before


def test_pings_among_answers_are_no_flood(peer: Peer) -> None:
    """Clients measure their bandwidth by a PING behind the answers' first bytes."""
    for i in range(500):
        stream = 2 * i + 1
        peer.send(whole_call(stream, CALL))
        answer = peer.answer(stream)
        check_good(answer)
        peer.send(frame(PING, 0, 0, i.to_bytes(8, "big")), frame(WINDOW_UPDATE, 0, 0, u32(len(answer.data))))
    peer.until(lambda: len(peer.pings_acked) == 500, "all PINGs' answers")
    assert peer.goaway is None


def test_a_slow_header_block_is_served(peer: Peer) -> None:
    """Byte by byte: slow is no crime."""
    for i, byte in enumerate(whole_call(1, CALL)):
        peer.send(bytes([byte]))
        time.sleep(0.001 if i < 50 else 0)
    check_good(peer.answer(1))


# ---- descriptors


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
