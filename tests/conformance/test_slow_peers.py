"""Clients that take their time, at the times that hold in production: each wait has its end, and nobody else waits."""

from __future__ import annotations

import resource
import socket
import time
from collections.abc import Iterator

import pytest
from beside import CALL, neighbours_served, opened, pour
from echo_generator import PACE, write_generator
from neighbour import Neighbour
from raw import (
    BLOCK,
    CANCEL,
    DATA,
    EH,
    ENHANCE_YOUR_CALM,
    ES,
    HEADERS,
    PATH,
    PING,
    PREFACE,
    SETTINGS,
    WINDOW_MAX,
    Peer,
    block,
    check_good,
    frame,
    message,
    request,
    setting,
    whole_call,
)
from serving import Server, until

from fastqps.v1 import predict_pb2 as pb

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

SLACK_S = 30.0  # on a busy machine
DEADLINE_EXCEEDED = 4
MANY = 10_000
MANY_BYTES_MAX = 400 << 20  # of the front door, for so many connections
GENERATE_S = 300


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that sets no deadlines of its own, for an encoder and a generator."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    model = tmp_path_factory.mktemp("echo")
    write_generator(model)
    flags = ("--frontdoors=1", "--dispatchers=1", "--default-timeout=0s", "--max-output-tokens=2000")
    server = Server("--model=minilm", f"--model=echo={model}", "--max-running=8", *flags, echo=True)
    try:
        yield server
        server.until_idle()
        server.stop()
    finally:
        server.kill()


@pytest.fixture
def other(patient: Server) -> Iterator[Neighbour]:
    """Another client of that server."""
    neighbour = Neighbour(patient.address)
    yield neighbour
    neighbour.check()
    neighbour.close()


def test_who_does_not_go_on_is_ended(patient: Server, other: Neighbour) -> None:
    """A client that has not said hello, a header block, a message, and answers for which there is no window: each
    ends after its own time, all at once."""
    opening = frame(HEADERS, EH, 1, BLOCK) + frame(DATA, 0, 1, CALL[:10])
    with (
        Peer(patient.address, hello=b"") as silent,
        Peer(patient.address) as heading,
        Peer(patient.address) as asking,
        Peer(patient.address, setting(4, 0)) as blocked,
        neighbours_served(patient, other),
    ):
        start = time.monotonic()
        heading.send(frame(HEADERS, 0, 1, BLOCK[:20]))
        asking.send(opening)
        blocked.send(*(whole_call(stream, CALL) for stream in opened(1024)))
        for peer, goaway in ((silent, None), (heading, ENHANCE_YOUR_CALM)):
            peer.end(10 + SLACK_S)
            assert peer.closed and peer.goaway == goaway and time.monotonic() - start > 9, peer
        answer = asking.answer(1, 30 + SLACK_S)
        assert answer.status == DEADLINE_EXCEEDED and answer.ended_at - start > 29
        check_good(asking.call(3))
        for stream in opened(1024):
            ended = blocked.answer(stream, 60 + SLACK_S)
            assert ended.reset == CANCEL and ended.reset_at - start > 59
        assert blocked.goaway is None and not blocked.closed
        blocked.send(frame(SETTINGS, 0, 0, setting(4, 65535)))
        check_good(blocked.call(2049))


def test_a_client_that_never_reads(patient: Server, other: Neighbour) -> None:
    items = [pb.PredictRequest(text="a")] * 2  # 3 MB of answers, and no full queue
    body = message(pb.PredictBatchRequest(items=items).SerializeToString())
    head = block(request(PATH + "PredictBatch"))
    with Peer(patient.address, setting(4, WINDOW_MAX)) as peer, neighbours_served(patient, other):
        peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connections, start = patient.connections(), time.monotonic()
        pour(peer, (whole_call(i, body, head) for i in opened(1024)), reads=False)
        until(lambda: patient.connections()[0] == connections[0] - 1, "its connection is closed", 90)
        assert time.monotonic() - start > 15


def test_many_silent_connections(patient: Server, other: Neighbour) -> None:
    """They are closed when they have said nothing for ten seconds, and do not keep the others out."""
    many(patient, other, hello=b"")
    until(lambda: patient.connections() == [1], "the others are closed", 10 + SLACK_S)


def test_many_idle_connections(patient: Server, other: Neighbour) -> None:
    """They may stay as they are."""
    many(patient, other, hello=PREFACE + frame(SETTINGS, 0, 0))
    until(lambda: patient.connections() == [1], "all have gone", SLACK_S)


def many(server: Server, other: Neighbour, hello: bytes) -> None:
    host, port = server.address.split(":")
    door = server.child("frontdoor 0")
    before = door.memory_info().rss
    sockets: list[socket.socket] = []
    try:
        for _ in range(MANY):
            sockets.append(socket.create_connection((host, int(port)), timeout=SLACK_S))
            if hello:
                sockets[-1].sendall(hello)
        if hello:
            until(lambda: server.connections() == [MANY + 1], "all are open", SLACK_S)
        for _ in range(200):
            other.check()
        assert door.memory_info().rss - before < MANY_BYTES_MAX
        if not hello:
            time.sleep(10)
    finally:
        for one in sockets:
            one.close()


def test_pings_during_a_long_generation(patient: Server) -> None:
    """A client that asks every 10 s whether the connection lives is no nuisance, with or without calls."""
    tokens = GENERATE_S * 1000 // 490
    ask = pb.PredictRequest(
        model="echo",
        token_ids={"ids": [PACE + 490, *b"ab"]},
        generate={"ignore_eos": True, "max_tokens": tokens},
    )
    with Peer(patient.address) as peer, Peer(patient.address) as quiet:
        peer.send(frame(HEADERS, EH, 1, block(request(PATH + "Generate"))))
        peer.send(frame(DATA, ES, 1, message(ask.SerializeToString())))
        sent = 0
        while not peer.stopped(1):
            for one in (peer, quiet):
                one.send(frame(PING, 0, 0, sent.to_bytes(8, "big")))
            sent += 1
            quiet.linger(0.1)
            peer.linger(9.9)
            assert sent < 2 * GENERATE_S / 10
        quiet.linger(0.5)
        assert peer.answers[1].status == 0
        assert len(quiet.pings_acked) == sent and quiet.goaway is None and peer.goaway is None
        check_good(quiet.call(1))
