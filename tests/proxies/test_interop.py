"""gRPC's interoperability cases, mapped onto own methods: by a stock client, direct and through each real proxy.

empty_unary, large_unary, client_compressed_unary, ping_pong, empty_stream, server_streaming, custom_metadata,
status_code_and_message, special_status_message, unimplemented_method and _service, cancel_after_begin and
_first_response, timeout_on_sleeping_server. The negative cases of that list are about clients; goaway is in
test_connection_age.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

import grpc
import pytest
from echo_dispatcher import SLOW, echo
from echo_generator import PACE, write_generator
from grpc_health.v1 import health_pb2, health_pb2_grpc
from serving import Server, until

from fastqps.v1 import predict_pb2 as pb
from fastqps.v1.predict_pb2_grpc import PredictServiceStub
from proxies.front import WAYS, must_be_installed, stand_before_one

LARGE_IN, LARGE_OUT = 271_828, 314_159
DIMENSIONS = 384
SPECIAL = "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n"
TIMEOUT_S = 20.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """An encoder and a generator, two dispatchers each; after all cases no request is left of them."""
    model = tmp_path_factory.mktemp("echo")
    write_generator(model)
    models = ("--model=minilm", f"--model=echo={model}")
    server = Server(*models, "--frontdoors=1", "--dispatchers=2", "--max-running=64", echo=True)
    try:
        yield server
        server.until_idle()
        assert not server.metrics()["fastqps_restarts_total"]
        server.stop()
    finally:
        server.kill()


@pytest.fixture(scope="module", params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    must_be_installed(request.param)
    return str(request.param)


@pytest.fixture(scope="module")
def address(way: str, server: Server) -> Iterator[str]:
    with stand_before_one(way, server) as address:
        yield address


@pytest.fixture
def channel(address: str) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(address) as channel:
        yield channel


@pytest.fixture
def stub(channel: grpc.Channel) -> PredictServiceStub:
    return PredictServiceStub(channel)


def ask(*ids: int, **fields: Any) -> pb.PredictRequest:
    output = {"dimensions": 4, "normalize": False}
    return pb.PredictRequest(request_id=ids[0], token_ids={"ids": ids}, output=output, **fields)


def check(answer: pb.PredictResponse, *ids: int) -> None:
    assert answer.request_id == ids[0] and not answer.status.code
    assert list(answer.embedding.values) == echo(ids)


def test_empty_unary(stub: PredictServiceStub) -> None:
    answer, call = stub.ListModels.with_call(pb.ListModelsRequest(), timeout=TIMEOUT_S)
    assert [model.name for model in answer.models] == ["minilm", "echo"]
    assert call.code() == grpc.StatusCode.OK


def test_large_unary(stub: PredictServiceStub) -> None:
    count = LARGE_OUT // (4 * DIMENSIONS) + 1
    item = pb.PredictRequest(text="word " * (LARGE_IN // count // 5 + 1), truncate=True)
    request = pb.PredictBatchRequest(items=[item] * count)
    assert request.ByteSize() > LARGE_IN
    answer = stub.PredictBatch(request, timeout=TIMEOUT_S)
    assert answer.ByteSize() > LARGE_OUT
    assert all(len(one.embedding.values) == DIMENSIONS and one.usage.truncated for one in answer.items)


@pytest.mark.parametrize("how", [grpc.Compression.Gzip, grpc.Compression.Deflate], ids=["gzip", "deflate"])
def test_client_compressed_unary(stub: PredictServiceStub, how: grpc.Compression) -> None:
    ids = [5, *[7] * 200, 9]
    check(stub.Predict(ask(*ids), timeout=TIMEOUT_S, compression=how), *ids)


def test_ping_pong(stub: PredictServiceStub) -> None:
    """Each request waits for the answer before it."""
    asks: SimpleQueue[pb.PredictRequest | None] = SimpleQueue()
    call = stub.PredictStream(iter(asks.get, None), timeout=TIMEOUT_S)
    for i in range(1, 5):
        asks.put(ask(i, 3))
        check(next(call), i, 3)
    asks.put(None)
    assert list(call) == [] and call.code() == grpc.StatusCode.OK


def test_empty_stream(stub: PredictServiceStub) -> None:
    call = stub.PredictStream(iter(()), timeout=TIMEOUT_S)
    assert list(call) == [] and call.code() == grpc.StatusCode.OK


def test_many_in_one_stream(stub: PredictServiceStub) -> None:
    """More than any window holds, in both directions."""
    count = 1500
    call = stub.PredictStream(pb.PredictRequest(text="some words " * 20, request_id=i) for i in range(count))
    assert sorted(answer.request_id for answer in call) == [*range(count)]


def test_server_streaming(stub: PredictServiceStub) -> None:
    """Tokens come as they are made: no proxy keeps them back."""
    start, times = time.monotonic(), []
    text = b"slowly"
    call = stub.Generate(pb.PredictRequest(model="echo", token_ids={"ids": [PACE + 40, *text]}), timeout=TIMEOUT_S)
    for chunk in call:
        times += [time.monotonic() - start] * len(chunk.token_ids)
    assert len(times) == len(text) + 1 and call.code() == grpc.StatusCode.OK
    assert times[0] < times[-1] - 0.1  # six steps of 40 ms lie between


def test_custom_metadata(stub: PredictServiceStub) -> None:
    """What a client adds is no trouble to anybody, and what the server adds arrives."""
    metadata = (("x-grpc-test-echo-initial", "test_initial"), ("x-grpc-test-bin", b"\x0a\x0b\x0a\x00\xff"))
    answer, call = stub.Predict.with_call(ask(3, 4), timeout=TIMEOUT_S, metadata=metadata)
    check(answer, 3, 4)
    assert dict(call.initial_metadata())["fastqps-model"].startswith("minilm@")


def failed(call: Callable[[], object]) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as raised:
        call()
    return raised.value


def test_status_code_and_message(stub: PredictServiceStub) -> None:
    error = failed(lambda: stub.Predict(pb.PredictRequest(text="a", output={"dimensions": 5000}), timeout=TIMEOUT_S))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT and "5000" in error.details()
    assert b"BadRequest" in dict(error.trailing_metadata())["grpc-status-details-bin"]


def test_special_status_message(stub: PredictServiceStub) -> None:
    error = failed(lambda: stub.Predict(pb.PredictRequest(text="a", model=SPECIAL), timeout=TIMEOUT_S))
    assert error.code() == grpc.StatusCode.NOT_FOUND and SPECIAL in error.details()


@pytest.mark.parametrize("path", ["/fastqps.v1.PredictService/NoSuchMethod", "/no.Such/Method"])
def test_unimplemented(channel: grpc.Channel, path: str) -> None:
    error = failed(lambda: channel.unary_unary(path)(b"", timeout=TIMEOUT_S))
    assert error.code() == grpc.StatusCode.UNIMPLEMENTED and path.split("/")[1] in error.details()


def test_cancel_after_begin(server: Server, stub: PredictServiceStub) -> None:
    asks: SimpleQueue[pb.PredictRequest | None] = SimpleQueue()
    asks.put(ask(1, SLOW + 50))
    call = stub.PredictStream(iter(asks.get, None))
    until(lambda: server.work()["fastqps_slots_used"] == 1, 5, "the request runs")
    call.cancel()
    asks.put(None)
    assert call.code() == grpc.StatusCode.CANCELLED
    server.until_idle()  # HAProxy 2.6 does not pass the cancel on: then at the step's end


def test_cancel_after_first_response(server: Server, stub: PredictServiceStub) -> None:
    call = stub.Generate(pb.PredictRequest(model="echo", token_ids={"ids": [PACE + 20, *b"a" * 50]}))
    assert next(call).text == "a"
    call.cancel()
    assert call.code() == grpc.StatusCode.CANCELLED
    server.until_idle()


def test_timeout_on_sleeping_server(server: Server, stub: PredictServiceStub) -> None:
    start = time.monotonic()
    error = failed(lambda: stub.Predict(ask(1, SLOW + 80), timeout=0.2))
    assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    assert time.monotonic() - start < 0.7  # before its step ends
    server.until_idle()


def test_health(channel: grpc.Channel) -> None:
    health = health_pb2_grpc.HealthStub(channel)
    assert health.Check(health_pb2.HealthCheckRequest(), timeout=TIMEOUT_S).status == 1
    watch = health.Watch(health_pb2.HealthCheckRequest(service="fastqps.v1.PredictService"), timeout=TIMEOUT_S)
    assert next(watch).status == 1
    watch.cancel()
