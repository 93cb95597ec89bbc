"""Streams of tei.v1, whose answers have no ids: their order, their bounds, failures, kills and drains."""

from __future__ import annotations

import queue
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from echo_dispatcher import echo
from gates import Gate
from serving import PATIENCE_S, Server, until

from fastqps.api.reflection import message_class
from fastqps.models.names import resolve
from fastqps.models.tokenizers.tokenizer import Tokenizer

IN_FLIGHT_MAX = 8
AHEAD = 1  # what a dispatcher may have claimed behind the step that a gate holds
FLAGS = ("--frontdoors=1", "--dispatchers=2", f"--max-stream-inflight={IN_FLIGHT_MAX}", "--max-batch-items=1")
REQUEST, RESPONSE = message_class("tei.v1.EmbedRequest"), message_class("tei.v1.EmbedResponse")
TOKENIZER = Tokenizer.from_file(resolve("minilm")[1] / "tokenizer.json")
ANSWERED = "fastqps_items_total{OK,minilm}"


class Stream:
    """A call of EmbedStream that is written and read bit by bit."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._messages: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.asked: list[str] = []
        method: Any = channel.stream_stream("/tei.v1.Embed/EmbedStream", REQUEST.SerializeToString, RESPONSE.FromString)
        self.call = method(self._requests(), timeout=PATIENCE_S)

    def _requests(self) -> Iterator[Any]:
        while (text := self._messages.get()) is not None:
            yield REQUEST(inputs=text, normalize=False)  # type: ignore[call-arg]

    def ask(self, *texts: str) -> None:
        for text in texts:
            self.asked.append(text)
            self._messages.put(text)

    def half_close(self) -> None:
        self._messages.put(None)

    def check(self, count: int) -> None:
        """The next answers are those to the next requests, in their order."""
        for text in self.asked[:count]:
            assert list(next(self.call).embeddings)[:4] == echo(TOKENIZER.encode(text)), text
        del self.asked[:count]


@contextmanager
def streaming(server: Server) -> Iterator[Stream]:
    with grpc.insecure_channel(server.address) as channel:
        yield Stream(channel)


@contextmanager
def gate_with_text(server: Server) -> Iterator[tuple[Gate, str]]:
    """A gate, and a text that has its id: not every id of a vocabulary is a word."""
    while True:
        with server.gate() as gate:
            word = TOKENIZER.decode([gate.id])
            if TOKENIZER.encode(word)[1:-1] == [gate.id]:
                yield gate, word
                return


def texts(count: int) -> list[str]:
    return [f"number {i}" for i in range(count)]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server(*FLAGS, echo=True)
    try:
        yield server
        server.stop()
    finally:
        server.kill()


def answered(server: Server) -> float:
    return server.metrics().get(ANSWERED, 0)


def test_a_slow_item_holds_up_the_answers_behind_it(server: Server) -> None:
    before = answered(server)
    with streaming(server) as stream, gate_with_text(server) as (gate, word):
        stream.ask("first", word, *texts(5))
        stream.check(1)
        until(lambda: answered(server) >= before + 6 - AHEAD, "the others are done")
        gate.open()
        stream.half_close()
        stream.check(6)
        assert list(stream.call) == [] and stream.call.code() == grpc.StatusCode.OK
    server.until_idle()


def test_answers_that_wait_count_as_in_flight(server: Server) -> None:
    before = answered(server)
    with streaming(server) as stream, gate_with_text(server) as (gate, word):
        stream.ask(word, *texts(100))
        until(lambda: answered(server) >= before + IN_FLIGHT_MAX - 1 - AHEAD, "as many as may are done")
        until(gate.reached, "the gate is reached")
        assert answered(server) <= before + IN_FLIGHT_MAX - 1
        gate.open()
        stream.half_close()
        stream.check(101)
        assert list(stream.call) == [] and stream.call.code() == grpc.StatusCode.OK
    server.until_idle()


def test_a_failure_waits_for_the_answers_before_it(server: Server) -> None:
    with streaming(server) as stream, gate_with_text(server) as (gate, word):
        stream.ask(word, "b", "", "c", "")
        until(gate.reached, "the gate is reached")
        gate.open()
        stream.check(2)
        with pytest.raises(grpc.RpcError) as refused:
            next(stream.call)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    server.until_idle()


def test_a_client_that_goes_leaves_nothing_behind(server: Server) -> None:
    with streaming(server) as stream, gate_with_text(server) as (gate, word):
        stream.ask(word, *texts(20))
        until(gate.reached, "the gate is reached")
        stream.call.cancel()
        gate.open()
    server.until_idle()


def test_kills_of_dispatchers_lose_and_swap_nothing(server: Server) -> None:
    with streaming(server) as stream:
        for worker in ("dispatcher 0", "dispatcher 1"):
            with gate_with_text(server) as (gate, word):
                stream.ask(*texts(50), word, *texts(200))
                stream.check(50)
                until(gate.reached, "the gate is reached")
                old = server.child(worker)
                old.kill()
                gate.open()
                stream.check(201)
                server.until_filled(worker, old)
        stream.half_close()
        assert list(stream.call) == [] and stream.call.code() == grpc.StatusCode.OK
    server.until_idle()


def test_a_drain_answers_what_was_asked(serve: Callable[..., Server]) -> None:
    server = serve(*FLAGS, echo=True)
    with streaming(server) as stream, gate_with_text(server) as (gate, word):
        stream.ask("first", word, *texts(5))
        stream.check(1)
        until(gate.reached, "the gate is reached")
        server.signal(signal.SIGTERM)
        gate.open()
        stream.check(6)
        with pytest.raises(grpc.RpcError) as ended:
            next(stream.call)
        assert ended.value.code() == grpc.StatusCode.UNAVAILABLE
        assert server.wait() == 0, server.log()
