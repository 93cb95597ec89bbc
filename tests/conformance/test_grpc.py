"""gRPC's rules on top of sound HTTP/2: content types, paths, timeouts, framing, compression, limits, error texts.

Each row is one call on a fresh connection. Its answer must be one complete status, and the connection must serve on.
"""

from __future__ import annotations

import base64
import gzip
import zlib
from dataclasses import dataclass, field

import grpc
import pytest
from neighbour import MESSAGE_BYTES_MAX
from raw import (
    BLOCK,
    BODY,
    DATA,
    EH,
    ENHANCE_YOUR_CALM,
    ES,
    HEADERS,
    PADDED,
    PATH,
    Answer,
    Header,
    Peer,
    block,
    check_good,
    frame,
    integer,
    message,
    request,
    setting,
)
from serving import PATIENCE_S, Server

from fastqps.v1 import predict_pb2 as pb

OK, CANCELLED, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND = range(6)
RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE = 8, 12, 13, 14
PREDICT = PATH + "Predict"
PREFIX = message(BODY)[:5]


def check_error(answer: Answer, status: int, *words: str, http: int = 200) -> None:
    """A trailers-only answer: one HEADERS frame with everything, and nothing else."""
    assert answer.reset is None and answer.ended and answer.blocks == 1 and not answer.data, answer
    assert (answer.http, answer.status) == (http, status), answer
    assert answer.text and all(word in answer.text for word in words), answer.text


def send(peer: Peer, headers: list[Header], body: bytes = message(BODY)) -> Answer:
    peer.send(frame(HEADERS, EH, 1, block(headers)))
    peer.send_data(1, body)
    return peer.answer(1)


def check_serves_on(peer: Peer) -> None:
    check_good(peer.call(101))
    assert peer.goaway is None


# ---- headers


@dataclass(frozen=True)
class Head:
    """A call's headers, and the status that they have; of "deadline" and of what is good there may be several."""

    headers: list[Header]
    status: int = OK
    words: tuple[str, ...] = ()
    http: int = 200


def typed(value: str, status: int = OK) -> Head:
    headers = request(content_type=value)
    return Head(headers) if status == OK else Head(headers, INVALID_ARGUMENT, ("content-type",), http=status)


def timed(status: int, *values: str) -> Head:
    """Which values are malformed: csrc/tests/transport/test_grpc_timeout.cpp."""
    words = {OK: (), INVALID_ARGUMENT: ("grpc-timeout",), DEADLINE_EXCEEDED: ("deadline",)}[status]
    return Head(request(PREDICT, *(("grpc-timeout", value) for value in values)), status, words)


PATHS = {
    "/fastqps.v1.Other/Predict": "unknown service fastqps.v1.Other",
    "/Predict": "unknown service",
    "/": "unknown service",
    "/fastqps.v1.PredictService/Other": "unknown method fastqps.v1.PredictService/Other",
    "/fastqps.v1.PredictService/predict": "unknown method",
    "/fastqps.v1.PredictService/Predict/": "unknown",
    "/fastqps.v1.PredictService/Predict?x": "unknown method",
    "/fastqps.v1.PredictService//Predict": "unknown",
    "//fastqps.v1.PredictService/Predict": "unknown",
    "/fastqps.v1.PredictService/": "unknown method",
    "/fastqps.v1.PredictService": "unknown",
    "/fastqps.v1.predictservice/Predict": "unknown service",
    "/fastqps.v1.PredictService/%50redict": "unknown method",
    "/" + "x" * 8192: "unknown service",
}
HEADS = {
    "grpc": typed("application/grpc"),
    "grpc+proto": typed("application/grpc+proto"),
    "grpc;": typed("application/grpc;charset=utf-8"),
    "grpc+proto;": typed("application/grpc+proto;charset=utf-8"),
    "Grpc": typed("Application/GRPC"),
    "html": typed("text/html", 415),
    "grpc-web": typed("application/grpc-web", 415),
    "grpc-web+proto": typed("application/grpc-web+proto", 415),
    "grpc2": typed("application/grpc2", 415),
    "grpc+json": typed("application/grpc+json", 415),
    "json": typed("application/json", 415),
    "protobuf": typed("application/x-protobuf", 415),
    "empty content type": typed("", 415),
    "no content type": Head(request(without=["content-type"]), INVALID_ARGUMENT, ("content-type",), http=415),
    **{
        f"method {method}": Head(request(method=method), INTERNAL, ("POST",), http=405)
        for method in ("GET", "PUT", "HEAD", "post", "OPTIONS")
    },
    **{f"path {path[:50]}": Head(request(path), UNIMPLEMENTED, (text,)) for path, text in PATHS.items()},
    **{f"timeout {value}": timed(OK, value) for value in ("60S", "5M", "1H", "99999999H", "60000m", "60000000u")},
    "timeout 0S": timed(DEADLINE_EXCEEDED, "0S"),
    "timeout 1n": timed(DEADLINE_EXCEEDED, "1n"),
    "malformed timeout": timed(INVALID_ARGUMENT, "1Q"),
    "two timeouts": timed(INVALID_ARGUMENT, "1S", "1S"),
}


@pytest.mark.parametrize("case", HEADS)
def test_headers(peer: Peer, case: str) -> None:
    head = HEADS[case]
    answer = send(peer, head.headers)
    if head.status == OK:
        check_good(answer)
    elif answer.status == RESOURCE_EXHAUSTED and head.status == DEADLINE_EXCEEDED:  # it would probably be late
        check_error(answer, RESOURCE_EXHAUSTED, "deadline")
    else:
        check_error(answer, head.status, *head.words, http=head.http)
        assert answer.one("allow") == ("POST" if head.http == 405 else None)
    check_serves_on(peer)


# ---- bodies


@dataclass(frozen=True)
class Body:
    frames: bytes
    status: int = OK
    words: tuple[str, ...] = ()


def data(*parts: bytes, last: bytes | None = None) -> bytes:
    """DATA frames; ``last`` ends the stream, or an empty one does."""
    return b"".join(frame(DATA, 0, 1, part) for part in parts) + frame(DATA, ES, 1, last or b"")


def padded(payload: bytes, padding: int) -> bytes:
    return frame(DATA, PADDED, 1, bytes([padding]) + payload + bytes(padding))


def of_size(size: int) -> bytes:
    """A valid request of that many bytes."""
    over = pb.PredictRequest(text="a" * size, request_id=7, truncate=True).ByteSize() - size
    return pb.PredictRequest(text="a" * (size - over), request_id=7, truncate=True).SerializeToString()


SMALL = b"\x12\x01a"  # text: "a"
BODIES = {
    "empty data": Body(data(), INTERNAL, ("no message",)),
    "prefix only": Body(data(PREFIX), INTERNAL, ("ends inside",)),
    "part of a prefix": Body(data(PREFIX[:3]), INTERNAL, ("ends inside",)),
    "part of a message": Body(data(message(BODY)[:-1]), INTERNAL, ("ends inside",)),
    "prefix byte by byte": Body(data(*(PREFIX[i : i + 1] for i in range(5)), last=BODY)),
    "3 bytes in 3 padded frames": Body(
        frame(DATA, 0, 1, message(SMALL)[:5])
        + b"".join(padded(SMALL[i : i + 1], 3 + i) for i in range(3))
        + frame(DATA, ES, 1)
    ),
    "two messages": Body(data(last=message(BODY) * 2), INTERNAL, ("more than one",)),
    "two messages in two frames": Body(data(message(BODY), message(BODY)), INTERNAL, ("more than one",)),
    "message and half a prefix": Body(data(last=message(BODY) + PREFIX[:2]), INTERNAL, ("ends inside",)),
    "message and a prefix": Body(data(last=message(BODY) + PREFIX), INTERNAL),
    "compressed flag without encoding": Body(data(last=message(BODY, 1)), INTERNAL, ("compress",)),
    "flag 2": Body(data(last=message(BODY, 2)), INTERNAL, ("flag",)),
    "flag 255": Body(data(last=message(BODY, 255)), INTERNAL, ("flag",)),
    "length 2^32-1": Body(data(last=message(b"", length=(1 << 32) - 1)), RESOURCE_EXHAUSTED, (str(MESSAGE_BYTES_MAX),)),
    "length limit+1": Body(
        data(last=message(b"x", length=MESSAGE_BYTES_MAX + 1)), RESOURCE_EXHAUSTED, (str(MESSAGE_BYTES_MAX),)
    ),
    "empty message": Body(data(last=message(b"")), INVALID_ARGUMENT, ("input",)),  # framed well; asks for nothing
}


@pytest.mark.parametrize("case", BODIES)
def test_body(peer: Peer, case: str) -> None:
    body = BODIES[case]
    peer.send(frame(HEADERS, EH, 1, BLOCK), body.frames)
    answer = peer.answer(1)
    if body.status == OK:
        check_good(answer, 0 if "3 bytes" in case else 7)
    else:
        check_error(answer, body.status, *body.words)
    check_serves_on(peer)


def test_end_of_stream_on_headers(peer: Peer) -> None:
    peer.send(frame(HEADERS, EH | ES, 1, BLOCK))
    check_error(peer.answer(1), INTERNAL, "no message")
    check_serves_on(peer)


@pytest.mark.parametrize(("more", "status"), [(0, OK), (1, RESOURCE_EXHAUSTED)])
def test_message_limit(peer: Peer, more: int, status: int) -> None:
    answer = send(peer, request(), message(of_size(MESSAGE_BYTES_MAX + more)))
    assert answer.status == status
    check_serves_on(peer)


def test_empty_batch(peer: Peer) -> None:
    """An empty message is a valid one."""
    answer = send(peer, request(PATH + "PredictBatch"), message(b""))
    assert (answer.status, answer.messages) == (OK, [b""])


# ---- compression


@dataclass(frozen=True)
class Compressed:
    encoding: str
    body: bytes
    status: int = OK
    flag: int = 1
    accepts: bool = field(default=True)  # the answer says what the server accepts


BOMB = pb.PredictRequest(text="a" * 10_000_000).SerializeToString()
COMPRESSED = {
    "gzip": Compressed("gzip", gzip.compress(BODY)),
    "deflate": Compressed("deflate", zlib.compress(BODY)),
    "gzip, message not compressed": Compressed("gzip", BODY, flag=0),
    "identity, message not compressed": Compressed("identity", BODY, flag=0, accepts=False),
    "gzip of the limit": Compressed("gzip", gzip.compress(of_size(MESSAGE_BYTES_MAX))),
    "gzip of the limit+1": Compressed("gzip", gzip.compress(of_size(MESSAGE_BYTES_MAX + 1)), RESOURCE_EXHAUSTED),
    "gzip of an empty message": Compressed("gzip", gzip.compress(b""), INVALID_ARGUMENT),
    "gzip corrupt": Compressed("gzip", gzip.compress(BODY)[:12] + b"\xff" * 20, INTERNAL),
    "gzip wrong checksum": Compressed("gzip", gzip.compress(BODY)[:-8] + bytes(8), INTERNAL),
    "gzip truncated": Compressed("gzip", gzip.compress(BODY)[:-4], INTERNAL),
    "gzip and more": Compressed("gzip", gzip.compress(BODY) + b"more", INTERNAL),
    "gzip of nothing": Compressed("gzip", b"", INTERNAL),
    "not gzip": Compressed("gzip", BODY, INTERNAL),
    "raw deflate": Compressed("deflate", zlib.compress(BODY, wbits=-15), INTERNAL),
    "gzip bomb": Compressed("gzip", gzip.compress(BOMB), RESOURCE_EXHAUSTED),
    "deflate bomb": Compressed("deflate", zlib.compress(BOMB), RESOURCE_EXHAUSTED),
    "br": Compressed("br", BODY, UNIMPLEMENTED),
    "br, message not compressed": Compressed("br", BODY, UNIMPLEMENTED, flag=0),
    "upper-case GZIP": Compressed("GZIP", gzip.compress(BODY), UNIMPLEMENTED),
    "identity, message compressed": Compressed("identity", gzip.compress(BODY), INTERNAL, accepts=False),
}


@pytest.mark.parametrize("case", COMPRESSED)
def test_compression(peer: Peer, case: str) -> None:
    row = COMPRESSED[case]
    answer = send(peer, request(PREDICT, ("grpc-encoding", row.encoding)), message(row.body, row.flag))
    if row.status == OK:
        check_good(answer)
    else:
        check_error(answer, row.status)
    assert answer.one("grpc-encoding") in (None, "identity")
    if row.accepts:
        assert answer.one("grpc-accept-encoding") == "identity, deflate, gzip"
    check_serves_on(peer)


def test_no_compression_headers_unasked(peer: Peer) -> None:
    answer = peer.call(1)
    check_good(answer)
    names = {name for name, _ in answer.headers + answer.trailers}
    assert names == {b":status", b"content-type", b"fastqps-model", b"grpc-status"}


# ---- header lists, error texts

LIST_MAX = 16384
FIELDS_MAX = 100


def list_of(size: int) -> list[Header]:
    """A call's headers that count that many bytes, by the measure of MAX_HEADER_LIST_SIZE."""
    headers = request(PREDICT, ("x-filler", ""))
    missing = size - sum(len(name) + len(value) + 32 for name, value in headers)
    return [*headers[:-1], ("x-filler", "f" * missing)]


HEADER_LISTS = {
    "limit-1": (list_of(LIST_MAX - 1), OK),
    "limit": (list_of(LIST_MAX), OK),
    "limit+1": (list_of(LIST_MAX + 1), RESOURCE_EXHAUSTED),
    "twice the limit": (list_of(2 * LIST_MAX), RESOURCE_EXHAUSTED),
    "100 fields": (request(PREDICT, *[("x", str(i)) for i in range(FIELDS_MAX - 6)]), OK),
    "101 fields": (request(PREDICT, *[("x", str(i)) for i in range(FIELDS_MAX - 5)]), RESOURCE_EXHAUSTED),
}


def send_block(peer: Peer, stream: int, data: bytes) -> None:
    """HEADERS and as many CONTINUATIONs as it takes."""
    parts = [data[at : at + 16384] for at in range(0, len(data), 16384)]
    for i, part in enumerate(parts):
        peer.send(frame(HEADERS if i == 0 else 9, EH if part is parts[-1] else 0, stream, part))


@pytest.mark.parametrize("case", HEADER_LISTS)
def test_header_list(peer: Peer, case: str) -> None:
    headers, status = HEADER_LISTS[case]
    send_block(peer, 1, block(headers))
    peer.send_data(1, message(BODY))
    answer = peer.answer(1)
    if status == OK:
        check_good(answer)
    else:
        check_error(answer, status, str(LIST_MAX), str(FIELDS_MAX))
    check_serves_on(peer)


TOO_MANY = {
    "over twice the limit": block(list_of(2 * LIST_MAX + 1)),
    "201 fields": block(request(PREDICT, *[("x", str(i)) for i in range(2 * FIELDS_MAX - 5)])),
    "10000 fields": block(request(PREDICT, *[("x", str(i)) for i in range(10_000)])),
    # One entry of the table, and references to it of one byte each.
    "references to a large entry": BLOCK + b"\x40\x01x" + integer(3500, 7) + b"v" * 3500 + b"\xbe" * 20_000,
}


@pytest.mark.parametrize("case", TOO_MANY)
def test_far_too_many_headers(peer: Peer, case: str) -> None:
    send_block(peer, 1, TOO_MANY[case])
    answer = peer.answer(1)
    assert answer.reset == ENHANCE_YOUR_CALM and not answer.headers, peer
    check_serves_on(peer)


def test_harmless_headers(peer: Peer) -> None:
    harmless: list[Header] = [
        ("x-trace-bin", "*!*"),
        *(("x-trace-bin", value) for value in ("AAA=", "AAA", "AAA,AAA")),
        ("user-agent", "grpc-go/1.75.0"),
        ("grpc-unknown", "1"),
        ("grpc-message-type", "any"),
        ("grpc-accept-encoding", "br, gzip"),
        ("authorization", "Bearer " + "x" * 1000),
    ]
    for i, header in enumerate(harmless):
        check_good(peer.call(1 + 2 * i, headers=request(PREDICT, header)))


TEXTS = ['"quotes"', "100%", "%41", "line\nend", "tab\tand\rreturn", "emoji \N{SNAKE}", "e\u0301", "\x7f", "ü" * 40]


@pytest.mark.parametrize("name", TEXTS, ids=ascii)
def test_error_text_round_trips(server: Server, peer: Peer, name: str) -> None:
    """What the client wrote comes back in the error's text unharmed, through a stock client and by the letter."""
    body = pb.PredictRequest(model=name, text="x")
    check_error(peer.call(1, body.SerializeToString()), NOT_FOUND, name)
    with grpc.insecure_channel(server.address) as channel:
        call = channel.unary_unary(PREDICT, pb.PredictRequest.SerializeToString, pb.PredictResponse.FromString)
        with pytest.raises(grpc.RpcError) as raised:
            call(body, timeout=PATIENCE_S)
    assert raised.value.code() == grpc.StatusCode.NOT_FOUND and name in raised.value.details()


@pytest.mark.parametrize(
    "path",
    [b"/" + b"\xff" * 600 + b"/x", b"/caf\xe9/x", "/\N{SNAKE}/x".encode() * 1000],
    ids=lambda path: str(path[:9]),
)
def test_hostile_path(peer: Peer, path: bytes) -> None:
    """Whatever stands in the path: the status is well-formed UTF-8, and short."""
    peer.send(frame(HEADERS, EH, 1, block([*request(without=[":path"])[:2], (":path", path), *request()[3:]])))
    peer.send_data(1, message(BODY))
    answer = peer.answer(1)
    if answer.reset is None:  # nghttp2 may refuse such a path itself
        check_error(answer, UNIMPLEMENTED, "unknown service")
        assert len(answer.one("grpc-message") or "") <= 1024


def test_status_details(peer: Peer) -> None:
    """grpc-status-details-bin says the same as the plain trailers, and names the field."""
    answer = peer.call(1, pb.PredictRequest(text="x", output={"dimensions": 5000}).SerializeToString())
    check_error(answer, INVALID_ARGUMENT, "output.dimensions", "384")
    encoded = answer.one("grpc-status-details-bin")
    assert encoded and "=" not in encoded
    details = base64.b64decode(encoded + "=" * (-len(encoded) % 4))
    status = pb.Status.FromString(details)  # google.rpc.Status has its first two fields alike
    assert (status.code, status.message) == (INVALID_ARGUMENT, answer.text)
    assert b"type.googleapis.com/google.rpc.BadRequest" in details and b"output.dimensions" in details


def test_long_error_text_is_cut(server: Server) -> None:
    with Peer(server.address, setting(1, 0)) as peer:
        body = pb.PredictRequest(model="\N{SNAKE}" * 5000, text="x").SerializeToString()
        answer = peer.call(1, body)
        check_error(answer, NOT_FOUND)
        assert len(answer.one("grpc-message") or "") <= 1024
