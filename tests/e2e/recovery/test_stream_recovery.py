"""Streams of ModelStreamInfer, and of tei.v1, whose answers have no ids: their order, their bounds, clients that go,
kills and drains."""

from __future__ import annotations

import queue
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from echo_dispatcher import echo
from echo_generator import DIE, write_generator
from gates import Gate
from reflected import method_at
from serving import PATIENCE_S, Server, until

from fastqps.models.names import resolve
from fastqps.models.tokenizers.tokenizer import Tokenizer

IN_FLIGHT_MAX = 8
AHEAD = 1  # what a dispatcher may have claimed behind the step that a gate holds
FLAGS = ("--frontdoors=1", "--dispatchers=2", f"--max-stream-inflight={IN_FLIGHT_MAX}", "--max-batch-items=1")
TOKENIZER = Tokenizer.from_file(resolve("minilm")[1] / "tokenizer.json")


class Stream:
    """A call that is written and read bit by bit."""

    METHOD = ""

    def __init__(self, channel: grpc.Channel) -> None:
        self._messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._asked: list[Any] = []
        method, self._request = method_at(channel, self.METHOD)
        self.call = method(map(self._message, iter(self._messages.get, None)), timeout=PATIENCE_S)

    def ask(self, *requests: Any) -> None:
        for request in requests:
            self._asked.append(request)
            self._messages.put(request)

    def check(self, count: int) -> None:
        """The next answers are those to the next requests, in their order."""
        for request in self._asked[:count]:
            self._check(request, next(self.call))
        del self._asked[:count]

    def end(self, count: int) -> None:
        """The client has asked all; so many answers come, and no error."""
        self._messages.put(None)
        self.check(count)
        assert list(self.call) == [] and self.call.code() == grpc.StatusCode.OK

    def _message(self, request: Any) -> Any:
        raise NotImplementedError

    def _check(self, request: Any, response: Any) -> None:
        raise NotImplementedError


class InferStream(Stream):
    """A request: its items' middle ids."""

    METHOD = "inference.GRPCInferenceService/ModelStreamInfer"

    @staticmethod
    def singles(count: int) -> list[list[int]]:
        return [[2000 + i] for i in range(count)]

    @staticmethod
    def held(gate: Gate) -> list[int]:
        """What the gate holds."""
        return [gate.id]

    def _message(self, request: list[int]) -> Any:
        message = self._request()
        message.parameters["normalize"].bool_param = False
        message.inputs.add(name="input_ids", datatype="INT32", shape=[len(request), 3])
        message.raw_input_contents.append(np.array([[101, i, 102] for i in request], np.int32).tobytes())
        return message

    def _check(self, request: list[int], response: Any) -> None:
        assert not response.error_message, response.error_message
        found = np.frombuffer(response.infer_response.raw_output_contents[0], np.float32).reshape(len(request), -1)
        assert [list(row[:4]) for row in found] == [echo([101, i, 102]) for i in request]


class EmbedStream(Stream):
    """A request: a text."""

    METHOD = "tei.v1.Embed/EmbedStream"

    @staticmethod
    def singles(count: int) -> list[str]:
        return [f"number {i}" for i in range(count)]

    @staticmethod
    def held(gate: Gate) -> str:
        """Nothing where its id is no word."""
        word = TOKENIZER.decode([gate.id])
        return word if TOKENIZER.encode(word)[1:-1] == [gate.id] else ""

    def _message(self, request: str) -> Any:
        return self._request(inputs=request, normalize=False)

    def _check(self, request: str, response: Any) -> None:
        assert list(response.embeddings)[:4] == echo(TOKENIZER.encode(request)), request


@contextmanager
def streaming(server: Server, kind: type[Any] = InferStream) -> Iterator[tuple[Any, Gate, Any]]:
    """A stream, a gate, and what the gate holds."""
    with grpc.insecure_channel(server.address) as channel:
        while True:
            with server.gate() as gate:
                if held := kind.held(gate):
                    yield kind(channel), gate, held
                    return


@pytest.fixture(scope="module")
def server(module_server: Callable[..., Server]) -> Server:
    return module_server(*FLAGS, echo=True)


@pytest.fixture(autouse=True)
def idle(server: Server) -> Iterator[None]:
    yield
    server.until_idle()


def answered(server: Server) -> float:
    return server.metrics().get("fastqps_items_total{OK,minilm}", 0)


by_kind = pytest.mark.parametrize("kind", [InferStream, EmbedStream])


@by_kind
def test_a_slow_request_holds_up_the_answers_behind_it(server: Server, kind: type[Any]) -> None:
    before = answered(server)
    with streaming(server, kind) as (stream, gate, held):
        first, *others = kind.singles(6)
        stream.ask(first, held, *others)
        stream.check(1)
        until(lambda: answered(server) >= before + 6 - AHEAD, "the others are done")
        gate.open()
        stream.end(6)


@by_kind
def test_answers_that_wait_count_as_in_flight(server: Server, kind: type[Any]) -> None:
    before = answered(server)
    with streaming(server, kind) as (stream, gate, held):
        stream.ask(held, *kind.singles(100))
        until(lambda: answered(server) >= before + IN_FLIGHT_MAX - 1 - AHEAD, "as many as may are done")
        until(gate.reached, "the gate is reached")
        assert answered(server) <= before + IN_FLIGHT_MAX - 1
        gate.open()
        stream.end(101)


@by_kind
@pytest.mark.parametrize("items", [1, 20], ids=["one item", "many items"])
def test_a_client_that_goes_leaves_nothing_behind(server: Server, kind: type[Any], items: int) -> None:
    with streaming(server, kind) as (stream, gate, held):
        stream.ask(*([held * items] if kind is InferStream else [held] * items), *kind.singles(20))
        until(gate.reached, "the gate is reached")
        stream.call.cancel()
        gate.open()


@by_kind
def test_kills_of_dispatchers_lose_and_swap_nothing(server: Server, kind: type[Any]) -> None:
    for worker in ("dispatcher 0", "dispatcher 1"):
        with streaming(server, kind) as (stream, gate, held):
            stream.ask(*kind.singles(50), held, *kind.singles(200))
            stream.check(50)
            until(gate.reached, "the gate is reached")
            old = server.child(worker)
            old.kill()
            gate.open()
            stream.check(201)
            server.until_filled(worker, old)
            stream.end(0)


def test_a_drain_answers_what_was_asked(serve: Callable[..., Server]) -> None:
    server = serve(*FLAGS, echo=True)
    with streaming(server) as (one, gate, held), streaming(server, EmbedStream) as (other, second, word):
        streams = ((one, held), (other, word))
        for stream, held_back in streams:
            first, *others = stream.singles(6)
            stream.ask(first, held_back, *others)
            stream.check(1)
        until(lambda: gate.reached() and second.reached(), "both gates are reached")
        server.signal(signal.SIGTERM)
        gate.open()
        second.open()
        for stream, _ in streams:
            stream.check(6)
            with pytest.raises(grpc.RpcError) as ended:
                next(stream.call)
            assert ended.value.code() == grpc.StatusCode.UNAVAILABLE
        assert server.wait() == 0, server.log()


def test_a_failure_waits_for_the_answers_before_it(server: Server) -> None:
    """In tei.v1, where it ends the stream."""
    with streaming(server, EmbedStream) as (stream, gate, held):
        stream.ask(held, "b", "", "c", "")
        until(gate.reached, "the gate is reached")
        gate.open()
        stream.check(2)
        with pytest.raises(grpc.RpcError) as refused:
            next(stream.call)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_large_answers_that_wait_are_bounded_and_all_come(serve: Callable[..., Server]) -> None:
    """Each of the others' answers has 1.5 MiB: more of them than a client may leave unread would end the call."""
    server = serve("--frontdoors=1", "--dispatchers=2", "--max-batch-items=64", echo=True)
    with streaming(server) as (stream, gate, held):
        stream.ask(held)
        until(gate.reached, "the gate is reached")
        stream.ask(*[[2000 + i for i in range(1024)]] * 12)
        until(lambda: answered(server) >= 2 * 1024, "the first of the others are done")
        time.sleep(0.5)
        assert answered(server) <= 4 * 1024
        gate.open()
        stream.check(1)
        time.sleep(0.2)  # what the client does not read yet must not end the call
        stream.end(12)
    server.until_idle()


def test_a_request_may_have_more_items_than_may_be_in_flight(server: Server) -> None:
    with streaming(server) as (stream, _, _):
        large = [list(range(2000, 2000 + n)) for n in (1, 500, 3, 1024)]
        stream.ask(*large, *stream.singles(20))
        stream.end(24)


def test_deadlines_of_requests_are_messages(server: Server) -> None:
    """The dispatcher holds the slot of one that is late, until the client is gone, too."""
    with grpc.insecure_channel(server.address) as channel, server.gate() as gate:
        method, request = method_at(channel, InferStream.METHOD)
        late = request(id="late")
        late.parameters["timeout"].int64_param = 300_000
        late.inputs.add(name="input_ids", datatype="INT32", shape=[1, 1])
        late.raw_input_contents.append(np.array([gate.id], np.int32).tobytes())
        (response,) = method(iter([late]), timeout=PATIENCE_S)
        assert response.error_message.startswith("the deadline passed") and response.infer_response.id == "late"


def test_pieces_of_a_generation_come_as_they_are_made(serve: Callable[..., Server], tmp_path: Path) -> None:
    """One whose dispatcher dies in the middle fails alone, and others on its stream are not held up by it."""
    write_generator(tmp_path)
    server = serve(f"--model=echo={tmp_path}", "--model=minilm", "--frontdoors=1", "--dispatchers=1", echo=True)
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with grpc.insecure_channel(server.address) as channel:
        method, request_type = method_at(channel, InferStream.METHOD)
        call = method(iter(requests.get, None), timeout=PATIENCE_S)

        def ask(name: str, ids: list[int], model: str) -> None:
            request = request_type(id=name, model_name=model)
            request.inputs.add(name="input_ids", datatype="INT32", shape=[1, len(ids)])
            request.raw_input_contents.append(np.array(ids, np.int32).tobytes())
            requests.put(request)

        def piece() -> tuple[str, bytes, bool]:
            response = next(call)
            assert not response.error_message, response.error_message
            answer = response.infer_response
            return answer.id, answer.raw_output_contents[0][4:], answer.parameters["triton_final_response"].bool_param

        with server.gate() as gate:
            ask("held", [*b"a", gate.id, *b"b"], "echo")
            assert piece() == ("held", b"a", False)
            ask("encoded", [101, 2000, 102], "minilm")
            assert piece()[::2] == ("encoded", True)
            until(gate.reached, "the gate is reached")
            gate.open()
            text, last = b"", False
            while not last:
                name, part, last = piece()
                assert name == "held"
                text += part
            assert text == b"b"
        with server.gate() as gate:
            ask("dies", [*b"a", gate.id, DIE], "echo")
            assert piece() == ("dies", b"a", False)
        response = next(call)
        assert response.infer_response.id == "dies" and response.error_message
        requests.put(None)
        assert list(call) == [] and call.code() == grpc.StatusCode.OK
    server.until_idle()
