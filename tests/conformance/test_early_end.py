"""An error while the client is still sending: direct, and through real proxies where they are installed."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import grpc
import pytest
from neighbour import MESSAGE_BYTES_MAX, until_read
from proxies.envoy import Envoy
from proxies.haproxy import HAProxy
from proxies.nginx import Nginx
from raw import BLOCK, BODY, DATA, EH, ES, HEADERS, NO_ERROR, PATH, Peer, block, check_good, frame, message, request
from serving import PATIENCE_S, Server
from tries import unmet, until_in_time

from fastqps.v1 import predict_pb2 as pb

UNKNOWN = block(request("/no.Such/Method"))


def test_refusal_waits_for_the_end(peer: Peer) -> None:
    """A refused call is answered when the client has said all, so that its own half-close ends the stream."""
    streams = itertools.count(1, 2)

    def attempt() -> str:
        start, stream = time.monotonic(), next(streams)
        peer.send(frame(HEADERS, EH, stream, UNKNOWN))
        peer.linger(0.3)
        if time.monotonic() - start > 0.9:
            return "nobody looked before the second was over"
        assert stream not in peer.answers
        peer.send(frame(DATA, ES, stream, message(BODY)))
        answer = peer.answer(stream)
        assert answer.status == 12 and answer.reset is None
        return ""

    until_in_time(attempt)
    check_good(peer.call(next(streams)))


def test_refusal_after_a_second(peer: Peer) -> None:
    """Who says nothing more hears it after a second; a second later the stream is closed, without an error."""
    streams = itertools.count(1, 2)

    def attempt() -> str:
        start, stream = time.monotonic(), next(streams)
        peer.send(frame(HEADERS, EH, stream, UNKNOWN))
        answer = peer.answer(stream)
        assert answer.status == 12 and answer.ended_at - start > 0.9
        peer.until(lambda: answer.reset is not None, "the reset")
        assert answer.reset == NO_ERROR and answer.reset_at - start > 1.8
        return unmet(answer=answer.ended_at - start < 1.5, reset=0.9 < answer.reset_at - answer.ended_at < 1.6)

    until_in_time(attempt, tries=4)
    check_good(peer.call(next(streams)))


def test_too_large_is_said_at_once(peer: Peer) -> None:
    """The message's length is known from its first bytes. The stream is not reset behind the answer."""
    streams = itertools.count(1, 2)

    def attempt() -> str:
        start, stream = time.monotonic(), next(streams)
        peer.send(frame(HEADERS, EH, stream, BLOCK))
        peer.send(frame(DATA, 0, stream, message(b"x" * 1000, length=MESSAGE_BYTES_MAX + 1)))
        answer = peer.answer(stream)
        assert answer.status == 8
        peer.until(lambda: answer.reset is not None, "the reset")
        assert answer.reset == NO_ERROR and answer.reset_at - start > 0.9
        return unmet(answer=answer.ended_at - start < 0.5, reset=0.9 < answer.reset_at - answer.ended_at < 1.6)

    until_in_time(attempt, tries=4)
    check_good(peer.call(next(streams)))


def test_client_ends_after_the_answer(peer: Peer) -> None:
    """The client's own end, in time, spares the reset."""
    streams = itertools.count(1, 2)

    def attempt() -> str:
        start, stream = time.monotonic(), next(streams)
        peer.send(frame(HEADERS, EH, stream, BLOCK))
        peer.send(frame(DATA, 0, stream, message(b"", length=MESSAGE_BYTES_MAX + 1)))
        answer = peer.answer(stream)
        assert answer.status == 8
        peer.send(frame(DATA, ES, stream, b"x" * 100))
        until_read(peer, next(streams))
        if time.monotonic() - start > 0.9:
            return "the end came when the second was over"
        peer.linger(1.3)
        assert answer.reset is None
        return ""

    until_in_time(attempt)
    check_good(peer.call(next(streams)))


def test_bidi_is_refused_at_once(peer: Peer) -> None:
    """A stream's client may wait for answers before it ends its side."""
    streams = itertools.count(1, 2)

    def attempt() -> str:
        start, stream = time.monotonic(), next(streams)
        peer.send(frame(HEADERS, EH, stream, block(request(PATH + "PredictStream", ("grpc-timeout", "x")))))
        answer = peer.answer(stream)
        assert answer.status == 3
        return "" if answer.ended_at - start < 0.5 else f"{answer.ended_at - start:.3f} s"

    until_in_time(attempt, tries=4)


# ---- T13: what a stock client sees


@pytest.fixture(scope="module", params=[None, Envoy, HAProxy, Nginx], ids=["direct", "envoy", "haproxy", "nginx"])
def address(request: pytest.FixtureRequest, server: Server) -> Iterator[str]:
    """Where the server is reached: itself, or a proxy in front of it."""
    if request.param is None:
        yield server.address
        return
    with request.param([server.address]) as proxy:
        yield proxy.address


@pytest.fixture
def channel(address: str) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(address, [("grpc.max_send_message_length", -1)]) as channel:
        yield channel


def predict(channel: grpc.Channel, **fields: object) -> pb.PredictResponse:
    call = channel.unary_unary(PATH + "Predict", pb.PredictRequest.SerializeToString, pb.PredictResponse.FromString)
    return call(pb.PredictRequest(**fields), timeout=PATIENCE_S)  # type: ignore[arg-type,no-any-return]


def test_answer_through(channel: grpc.Channel) -> None:
    assert [predict(channel, text="a", request_id=i).request_id for i in range(1, 30)] == [*range(1, 30)]


@pytest.mark.parametrize("size", [MESSAGE_BYTES_MAX, 4 << 20], ids=["little over the limit", "far over the limit"])
def test_too_large_through(server: Server, channel: grpc.Channel, size: int) -> None:
    """The status is the server's own, on whatever way, while most of the message is still to be sent."""
    for _ in range(3):
        with pytest.raises(grpc.RpcError) as raised:
            predict(channel, text="x" * size)
        assert raised.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED, raised.value
        assert str(MESSAGE_BYTES_MAX) in raised.value.details()
        assert predict(channel, text="a", request_id=2).request_id == 2
    server.until_idle()


def test_error_through(channel: grpc.Channel) -> None:
    """Code, text and details pass every proxy."""
    with pytest.raises(grpc.RpcError) as raised:
        predict(channel, text="a", output={"dimensions": 5000})
    assert raised.value.code() == grpc.StatusCode.INVALID_ARGUMENT and "5000" in raised.value.details()
    assert "grpc-status-details-bin" in dict(raised.value.trailing_metadata())


def test_refusal_of_an_open_stream_through(channel: grpc.Channel) -> None:
    """A bidirectional call that is refused while its client has not ended it."""

    def asks() -> Iterator[bytes]:
        yield b"\x12\x01a"
        time.sleep(0.3)

    with pytest.raises(grpc.RpcError) as raised:
        list(channel.stream_stream("/fastqps.v1.PredictService/NoSuchStream")(asks(), timeout=PATIENCE_S))
    assert raised.value.code() == grpc.StatusCode.UNIMPLEMENTED, raised.value
