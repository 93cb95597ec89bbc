"""Clients that take their time, at the times that hold in production: each wait has its end, and nobody else waits."""

from __future__ import annotations

import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from echo_generator import PACE, write_generator
from figures import Perf, p99_s
from floods import CALL, FLOODS, neighbours_served, opened, pour
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


def ends_after(seconds: float, peer: Peer) -> None:
    """The server ends the connection then, not before."""
    start = time.monotonic()
    peer.end(seconds + SLACK_S)
    assert peer.closed and time.monotonic() - start > seconds - 1, peer


def test_no_preface(patient: Server, other: Neighbour) -> None:
    with Peer(patient.address, hello=b"") as peer, neighbours_served(patient, other):
        ends_after(10, peer)
        assert peer.goaway is None  # nothing has shown that it speaks HTTP/2


def test_a_header_block_that_does_not_end(patient: Server, other: Neighbour) -> None:
    with Peer(patient.address) as peer, neighbours_served(patient, other):
        peer.send(frame(HEADERS, 0, 1, BLOCK[:20]))
        ends_after(10, peer)
        assert peer.goaway == ENHANCE_YOUR_CALM


def test_a_body_that_does_not_end(patient: Server, other: Neighbour) -> None:
    with Peer(patient.address) as peer, neighbours_served(patient, other):
        start = time.monotonic()
        peer.send(frame(HEADERS, EH, 1, BLOCK), frame(DATA, 0, 1, CALL[:10]))
        answer = peer.answer(1, 30 + SLACK_S)
        assert answer.status == DEADLINE_EXCEEDED and time.monotonic() - start > 29
        check_good(peer.call(3))


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


def test_streams_without_window(patient: Server, other: Neighbour) -> None:
    with Peer(patient.address, setting(4, 0)) as peer, neighbours_served(patient, other):
        start = time.monotonic()
        for stream in opened(1024):
            peer.send(whole_call(stream, CALL))
        for stream in opened(1024):
            assert peer.answer(stream, 60 + SLACK_S).reset == CANCEL
        assert time.monotonic() - start > 59
        assert peer.goaway is None and not peer.closed
        peer.send(frame(SETTINGS, 0, 0, setting(4, 65535)))
        check_good(peer.call(2049))


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


# ---- how much others feel of it


def honest() -> Iterator[bytes]:
    """Calls, as fast as they can be sent."""
    for stream in opened(1 << 20):
        yield whole_call(stream, CALL)


def p99_beside(server: Server, other: Neighbour, frames: Callable[[], Iterator[bytes]]) -> float:
    """The 99th percentile of another client's calls, in seconds, while such clients come again and again."""
    over = threading.Event()

    def rush() -> None:
        while not over.is_set():
            with Peer(server.address) as peer:
                pour(peer, (one for one in frames() if not over.is_set()), reads=True)

    rushing = threading.Thread(target=rush)
    rushing.start()
    try:
        return p99_s(other.check, 4)
    finally:
        over.set()
        rushing.join()  # its sends and reads have their ends


@pytest.mark.perf
@pytest.mark.parametrize("case", FLOODS)
def test_a_flood_costs_others_no_more_than_calls(patient: Server, other: Neighbour, case: str, perf: Perf) -> None:
    """Their p99 over that beside a client whose calls are honest, as many as it can make."""

    def measure() -> float:
        return p99_beside(patient, other, FLOODS[case][0]) / p99_beside(patient, other, honest)

    perf(f"p99 beside a flood of {case}", measure, at_most=2)
