"""Servers that an edge cannot use, each with one line of its log."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from certificates import Authority
from ledger import OK, Ledger, Load
from serving import PATIENCE_S, Server, until
from step_server import PROTOCOL, RUN, Replies, hello, number, part, ready, sealed, step_server
from upstream_state import news, start_edge

from fastqps._core import Segment
from fastqps.v1 import predict_pb2 as pb
from fastqps.v1.predict_pb2_grpc import PredictServiceStub as Stub

TOKEN = "a-token-of-the-file-for-edges"


def states(edge: Server, dispatcher: int = 0) -> dict[str, tuple[str, str]]:
    """State and reason of each upstream, as the edge's segment says."""
    files = Path(f"/proc/{edge.pid}/fd")
    (found,) = {path for path in files.iterdir() if os.readlink(path).startswith("/memfd:fastqps (")}
    fd = os.open(found, os.O_RDWR)
    try:
        return {row.name: (row.state, row.reason) for row in Segment(fd).upstreams(dispatcher) if row.state != "none"}
    finally:
        os.close(fd)


def assert_refused(edge: Server, address: str, state: str, *words: str, again_s: float = 1.6) -> None:
    """One line says so, however often the edge tries again, and the table says the same."""
    until(lambda: news(edge, address) and news(edge, address)[-1].startswith(f"{state}: "), f"{state}\n{edge.log()}")
    time.sleep(again_s)  # it tries again
    (line,) = (line for line in news(edge, address) if not line.startswith("connecting"))
    assert all(word in line for word in words), line
    found, reason = states(edge)[address]
    assert (found, f"{state}: {reason}") == (state, line)
    with grpc.insecure_channel(edge.address) as channel, pytest.raises(grpc.RpcError) as refused:
        Stub(channel).Predict(pb.PredictRequest(text="a"), timeout=PATIENCE_S)
    assert refused.value.code() == grpc.StatusCode.UNAVAILABLE


# ---- versions and protocols


def silent(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
    for _ in requests:
        yield from ()


def ended(code: grpc.StatusCode, text: str) -> Replies:
    def replies(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        next(requests)
        context.abort(code, text)
        yield from ()

    return replies


def saying(*messages: bytes) -> Replies:
    def replies(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        next(requests)
        yield from messages
        for _ in requests:
            pass

    return replies


OTHERS: list[tuple[Replies | None, str, tuple[str, ...]]] = [
    (saying(ready(protocol=PROTOCOL + 1)), "mismatch", (f"protocol {PROTOCOL + 1}", f"this edge {PROTOCOL}", "update")),
    (None, "mismatch", ("does not know StepService",)),
    (saying(ready(input_tokens=255)), "mismatch", ("--max-input-tokens is 255", "256")),
    (ended(grpc.StatusCode.FAILED_PRECONDITION, "it serves m@2"), "mismatch", ("it serves m@2",)),
    (saying(ready()[:-1] + b"?"), "suspended", ("checksum",)),
    (saying(sealed(b"\xff\xff")), "suspended", ("not a message of this protocol",)),
    (silent, "suspended", ("has not answered",)),
]


def test_other_servers(serve: Callable[..., Server]) -> None:
    with ExitStack() as running:
        addresses = [running.enter_context(step_server(replies)) for replies, _, _ in OTHERS]
        edge = start_edge(serve, addresses)
        for address, (_, state, words) in zip(addresses, OTHERS, strict=True):
            assert_refused(edge, address, state, *words, again_s=0)
        assert_refused(edge, addresses[-1], *OTHERS[-1][1:2], *OTHERS[-1][2])


def row(kind: int, dtype: int, values: int, size: int) -> bytes:
    return number(5, kind) + number(6, dtype) + number(7, values) + part(8, b"\0" * size)


RIGHT = row(1, 1, 384, 1536)
BROKEN = number(2, (1 << 16) + 14) + part(3, b"it is broken")  # no code of gRPC: INTERNAL
DOES_NOT_FIT = "the upstream server's answer to this request does not fit the model"
DO_NOT_FIT = "the upstream servers' answers do not fit the model: the edge's log says how"
WRONG = [row(1, 1, 384, 1535), row(9, 0, 384, 1536), row(1, 9, 1 << 30, 1536), row(1, 1, 1 << 31, 1536)]


def answering(answer: Callable[[], bytes], opens: Callable[[], bool] = lambda: True) -> Replies:
    """Every item with the same row, and what was never asked, which is nobody's, too."""

    def replies(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        next(requests)
        if not opens():
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not yet")
        yield ready()
        for request in requests:
            if request[:1] != b"\x12":  # an echo
                yield sealed(part(3, b"\x09" + request[1:9]))
                continue
            items = (request[2 + i : 6 + i] for i in range(0, request[1], 4))
            for item in ((1 << 30).to_bytes(4, "little"), *items):
                yield sealed(part(2, b"\x0d" + item + answer()))

    return replies


def test_answers_of_another_model(serve: Callable[..., Server]) -> None:
    """Such a server gets no more until it has answered one right, and one line says why. Its items go to others, and
    no client sees an error while one server is right. A status is an answer, and fails its request alone; so does a
    wrong answer of a server that has given right ones."""
    right, mended = threading.Event(), threading.Event()
    says = [RIGHT]
    with ExitStack() as running:
        servers = [answering(lambda wrong=wrong: wrong) for wrong in WRONG[1:]]  # type: ignore[misc]
        servers.insert(0, answering(lambda: says[0] if mended.is_set() else WRONG[0]))
        servers.append(answering(lambda: says[0], right.is_set))
        addresses = [running.enter_context(step_server(replies)) for replies in servers]
        wrong, last = addresses[:-1], addresses[-1]
        edge = start_edge(serve, [last, *wrong])
        for address in wrong:
            until(lambda address=address: news(edge, address)[-1:] == ["serving"], f"it serves\n{edge.log()}")
        with grpc.insecure_channel(edge.address) as channel:
            ask = Stub(channel).Predict
            with pytest.raises(grpc.RpcError) as failed:
                ask(pb.PredictRequest(text="a"), timeout=PATIENCE_S)
            assert failed.value.code() == grpc.StatusCode.INTERNAL
            assert failed.value.details() == DO_NOT_FIT
            with pytest.raises(grpc.RpcError) as failed:
                ask(pb.PredictRequest(text="a"), timeout=PATIENCE_S)
            assert failed.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL)
            right.set()
            until(lambda: news(edge, last)[-1:] == ["serving"], f"it serves\n{edge.log()}")

            def asks(end: Callable[[], bool]) -> None:
                while not end():
                    calls = [ask.future(pb.PredictRequest(text="a"), timeout=PATIENCE_S) for _ in range(20)]
                    assert all(len(call.result().embedding.values) == 384 for call in calls)
                    time.sleep(0.02)

            end_s = time.monotonic() + 3  # the others are tried again
            asks(lambda: time.monotonic() > end_s)
            assert states(edge)[wrong[0]][0] == "mismatch"
            mended.set()
            end_s = time.monotonic() + PATIENCE_S
            asks(lambda: news(edge, wrong[0])[-1] == "serving" or time.monotonic() > end_s)
            assert states(edge)[wrong.pop(0)][0] == "serving"
            for answer, why in ((BROKEN, "it is broken"), (WRONG[0], DOES_NOT_FIT)):
                says[0] = answer
                for _ in range(3):
                    with pytest.raises(grpc.RpcError) as failed:
                        ask(pb.PredictRequest(text="a"), timeout=PATIENCE_S)
                    assert (failed.value.code(), failed.value.details()) == (grpc.StatusCode.INTERNAL, why)
        for address in wrong:
            (line,) = (line for line in news(edge, address) if line != "serving" and not line.startswith("connecting"))
            assert line.startswith("mismatch: its answers do not fit the model ("), line
            assert states(edge)[address][0] == "mismatch"
            assert news(edge, address).count("serving") == 1
        assert news(edge, last)[-1] == "serving"
        assert edge.metrics()[f"fastqps_upstream_items_total{{answered,{last}}}"] > 20


async def test_a_server_that_is_about_to_stop(serve: Callable[..., Server]) -> None:
    """It gets nothing while another server is there, and everything when none is; the log has one line of it."""
    flags = ("--frontdoors=1", "--dispatchers=1")
    leaves, stays = serve(*flags, "--lame-duck=20s", echo=True), serve(*flags, echo=True)
    edge = start_edge(serve, [leaves.address, stays.address])
    for server in (leaves, stays):
        until(lambda address=server.address: states(edge)[address][0] == "serving", edge.log())
    leaves.signal(signal.SIGTERM)
    until(lambda: states(edge)[leaves.address] == ("draining", "it is about to stop"), edge.log())
    ledger = Ledger()

    def answers() -> float:
        return leaves.metrics().get("fastqps_items_total", 0)

    async with Load(edge.address, ledger) as load:
        before = await asyncio.to_thread(answers)
        await load.more(200)
        assert await asyncio.to_thread(answers) == before
        await asyncio.to_thread(stays.kill)
        await load.more(200)
        assert await asyncio.to_thread(answers) > before
    ledger.check()
    assert set(ledger.counts) == {OK}, ledger.counts
    assert [line for line in news(edge, leaves.address) if "connecting" not in line] == [
        "serving", "draining: it is about to stop"
    ]  # fmt: skip
    leaves.kill()


def test_other_edges(shared_server: Callable[..., Server]) -> None:
    """A server says to each why it does not serve it."""
    server = shared_server("--frontdoors=1", "--dispatchers=1")
    version = server.log().partition("minilm@")[2][:12]
    asked = {
        (hello(PROTOCOL + 1, "minilm", version),): ("FAILED_PRECONDITION", f"protocol {PROTOCOL + 1}"),
        (hello(PROTOCOL, "nobody", version),): ("NOT_FOUND", "served: 'minilm'"),
        (hello(PROTOCOL, "minilm", "0" * 12),): ("FAILED_PRECONDITION", f"it serves minilm@{version}"),
        (hello(PROTOCOL, "minilm", version)[:-1] + b"?",): ("DATA_LOSS", "checksum"),
        (sealed(b""),): ("FAILED_PRECONDITION", "no hello"),
        (hello(PROTOCOL, "minilm", version), hello(PROTOCOL, "minilm", version)): (
            "FAILED_PRECONDITION",
            "second hello",
        ),
        (): ("FAILED_PRECONDITION", "no hello"),
    }
    with grpc.insecure_channel(server.address) as channel:
        for messages, (code, words) in asked.items():
            with pytest.raises(grpc.RpcError) as refused:
                list(channel.stream_stream(RUN)(iter(messages), timeout=PATIENCE_S))
            assert refused.value.code().name == code and words in refused.value.details(), refused.value


# ---- TLS and tokens


@pytest.fixture(scope="module")
def guarded(module_server: Callable[..., Server], authority: Authority) -> Server:
    """With TLS, client certificates and tokens. csrc/tests/upstream has who is let in, case by case, and
    tests/edge/test_doctor_upstream.py what is said of it."""
    tokens = authority.folder / "tokens"
    tokens.write_text(f"{TOKEN}\n")
    flags = (f"--tls-client-ca={authority.certificate}", f"--auth-token-file={tokens}", "--frontdoors=1")
    return module_server(*authority.pair("guarded").flags, *flags, "--dispatchers=1")


def test_who_is_let_in(serve: Callable[..., Server], guarded: Server, authority: Authority) -> None:
    """An edge with all that the server asks for; and one server without TLS, which gets nothing of it."""
    own = authority.pair("edge")
    files = {"tls-ca": authority.certificate, "tls-cert": own.certificate, "tls-key": own.key}
    files["token-file"] = authority.folder / "tokens"
    flags = [f"--upstream-{key}={value}" for key, value in files.items()]
    with step_server(answering(lambda: RIGHT)) as plain:
        edge = start_edge(serve, [guarded.address, plain], *flags)
        until(lambda: news(edge, guarded.address)[-1:] == ["serving"], f"it serves\n{edge.log()}")
        with grpc.insecure_channel(edge.address) as channel:
            assert Stub(channel).Predict(pb.PredictRequest(text="a"), timeout=PATIENCE_S).embedding.values
        assert TOKEN not in edge.log() + guarded.log()
        until(lambda: news(edge, plain)[-1:] and news(edge, plain)[-1].startswith("refused: "), f"so\n{edge.log()}")
        assert states(edge)[plain] == ("refused", news(edge, plain)[-1].removeprefix("refused: "))
        assert "TLS" in news(edge, plain)[-1]
