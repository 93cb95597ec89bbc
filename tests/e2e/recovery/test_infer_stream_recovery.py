"""Streams of ModelStreamInfer: their order, their bounds, clients that go, kills and drains."""

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
from serving import PATIENCE_S, Server, until

from fastqps.api.reflection import message_class

IN_FLIGHT_MAX = 8
AHEAD = 1  # what a dispatcher may have claimed behind the step that a gate holds
FLAGS = ("--frontdoors=1", "--dispatchers=2", f"--max-stream-inflight={IN_FLIGHT_MAX}", "--max-batch-items=1")
REQUEST, RESPONSE = message_class("inference.ModelInferRequest"), message_class("inference.ModelStreamInferResponse")
ANSWERED = "fastqps_items_total{OK,minilm}"


class Stream:
    """A call of ModelStreamInfer that is written and read bit by bit. A request: its items' middle ids."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._messages: queue.SimpleQueue[list[int] | None] = queue.SimpleQueue()
        self._asked: list[list[int]] = []
        method: Any = channel.stream_stream(
            "/inference.GRPCInferenceService/ModelStreamInfer", REQUEST.SerializeToString, RESPONSE.FromString
        )
        self.call = method(self._requests(), timeout=PATIENCE_S)

    def _requests(self) -> Iterator[Any]:
        number = 0
        while (ids := self._messages.get()) is not None:
            request: Any = REQUEST(id=str(number))
            number += 1
            request.parameters["normalize"].bool_param = False
            request.inputs.add(name="input_ids", datatype="INT32", shape=[len(ids), 3])
            request.raw_input_contents.append(np.array([[101, i, 102] for i in ids], np.int32).tobytes())
            yield request

    def ask(self, *requests: list[int]) -> None:
        for ids in requests:
            self._asked.append(ids)
            self._messages.put(ids)

    def half_close(self) -> None:
        self._messages.put(None)

    def check(self, count: int) -> None:
        """The next answers are those to the next requests, in their order."""
        for ids in self._asked[:count]:
            response = next(self.call)
            assert not response.error_message, response.error_message
            found = np.frombuffer(response.infer_response.raw_output_contents[0], np.float32).reshape(len(ids), -1)
            assert [list(row[:4]) for row in found] == [echo([101, i, 102]) for i in ids]
        del self._asked[:count]


@contextmanager
def streaming(server: Server) -> Iterator[Stream]:
    with grpc.insecure_channel(server.address) as channel:
        yield Stream(channel)


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


def singles(count: int) -> list[list[int]]:
    return [[2000 + i] for i in range(count)]


def test_a_slow_request_holds_up_the_answers_behind_it(server: Server) -> None:
    before = answered(server)
    with streaming(server) as stream, server.gate() as gate:
        stream.ask([1999], [gate.id], *singles(5))
        stream.check(1)
        until(lambda: answered(server) >= before + 6 - AHEAD, "the others are done")
        gate.open()
        stream.half_close()
        stream.check(6)
        assert list(stream.call) == [] and stream.call.code() == grpc.StatusCode.OK
    server.until_idle()


def test_answers_that_wait_count_as_in_flight(server: Server) -> None:
    before = answered(server)
    with streaming(server) as stream, server.gate() as gate:
        stream.ask([gate.id], *singles(100))
        until(lambda: answered(server) >= before + IN_FLIGHT_MAX - 1 - AHEAD, "as many as may are done")
        until(gate.reached, "the gate is reached")
        assert answered(server) <= before + IN_FLIGHT_MAX - 1
        gate.open()
        stream.half_close()
        stream.check(101)
        assert list(stream.call) == [] and stream.call.code() == grpc.StatusCode.OK
    server.until_idle()


def test_large_answers_that_wait_are_bounded_and_all_come(serve: Callable[..., Server]) -> None:
    """Each of the others' answers has 1.5 MiB: more of them than a client may leave unread would end the call."""
    server = serve("--frontdoors=1", "--dispatchers=2", "--max-batch-items=64", echo=True)
    with streaming(server) as stream, server.gate() as gate:
        stream.ask([gate.id])
        until(gate.reached, "the gate is reached")
        stream.ask(*[[2000 + i for i in range(1024)]] * 12)
        until(lambda: answered(server) >= 2 * 1024, "the first of the others are done")
        time.sleep(0.5)
        assert answered(server) <= 4 * 1024
        gate.open()
        stream.half_close()
        stream.check(1)
        time.sleep(0.2)  # what the client does not read yet must not end the call
        stream.check(12)
        assert list(stream.call) == [] and stream.call.code() == grpc.StatusCode.OK
    server.until_idle()


def test_a_request_may_have_more_items_than_may_be_in_flight(server: Server) -> None:
    with streaming(server) as stream:
        large = [list(range(2000, 2000 + n)) for n in (1, 500, 3, 1024)]
        stream.ask(*large, *singles(20))
        stream.half_close()
        stream.check(24)
        assert list(stream.call) == [] and stream.call.code() == grpc.StatusCode.OK
    server.until_idle()


@pytest.mark.parametrize("items", [1, 20], ids=["one item", "many items"])
def test_a_client_that_goes_leaves_nothing_behind(server: Server, items: int) -> None:
    with streaming(server) as stream, server.gate() as gate:
        stream.ask([gate.id] * items, *singles(20))
        until(gate.reached, "the gate is reached")
        stream.call.cancel()
        gate.open()
    server.until_idle()


def test_deadlines_of_requests_are_messages(server: Server) -> None:
    """The dispatcher holds the slot of one that is late, until the client is gone, too."""
    with grpc.insecure_channel(server.address) as channel, server.gate() as gate:
        method: Any = channel.stream_stream(
            "/inference.GRPCInferenceService/ModelStreamInfer", REQUEST.SerializeToString, RESPONSE.FromString
        )
        late: Any = REQUEST(id="late")
        late.parameters["timeout"].int64_param = 300_000
        late.inputs.add(name="input_ids", datatype="INT32", shape=[1, 1])
        late.raw_input_contents.append(np.array([gate.id], np.int32).tobytes())
        (response,) = method(iter([late]), timeout=PATIENCE_S)
        assert response.error_message.startswith("the deadline passed") and response.infer_response.id == "late"
    server.until_idle()


def test_kills_of_dispatchers_lose_and_swap_nothing(server: Server) -> None:
    with streaming(server) as stream:
        for worker in ("dispatcher 0", "dispatcher 1"):
            with server.gate() as gate:
                stream.ask(*singles(50), [2100, gate.id, 2101], *singles(100))
                stream.check(50)
                until(gate.reached, "the gate is reached")
                old = server.child(worker)
                old.kill()
                gate.open()
                stream.check(101)
                server.until_filled(worker, old)
        stream.half_close()
        assert list(stream.call) == [] and stream.call.code() == grpc.StatusCode.OK
    server.until_idle()


def test_pieces_of_a_generation_come_as_they_are_made(serve: Callable[..., Server], tmp_path: Path) -> None:
    """One whose dispatcher dies in the middle fails alone, and others on its stream are not held up by it."""
    write_generator(tmp_path)
    server = serve(f"--model=echo={tmp_path}", "--model=minilm", "--frontdoors=1", "--dispatchers=1", echo=True)
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with grpc.insecure_channel(server.address) as channel:
        method: Any = channel.stream_stream(
            "/inference.GRPCInferenceService/ModelStreamInfer", REQUEST.SerializeToString, RESPONSE.FromString
        )
        call = method(iter(requests.get, None), timeout=PATIENCE_S)

        def ask(name: str, ids: list[int], model: str) -> None:
            request: Any = REQUEST(id=name, model_name=model)
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
        ask("dies", [*b"a", DIE], "echo")
        assert piece() == ("dies", b"a", False)
        response = next(call)
        assert response.infer_response.id == "dies" and response.error_message
        requests.put(None)
        assert list(call) == [] and call.code() == grpc.StatusCode.OK
    server.until_idle()


def test_a_drain_answers_what_was_asked(serve: Callable[..., Server]) -> None:
    server = serve(*FLAGS, echo=True)
    with streaming(server) as stream, server.gate() as gate:
        stream.ask([1999], [gate.id, 2000], *singles(4))
        stream.check(1)
        until(gate.reached, "the gate is reached")
        server.signal(signal.SIGTERM)
        gate.open()
        stream.check(5)
        with pytest.raises(grpc.RpcError) as ended:
            next(stream.call)
        assert ended.value.code() == grpc.StatusCode.UNAVAILABLE
        assert server.wait() == 0, server.log()
