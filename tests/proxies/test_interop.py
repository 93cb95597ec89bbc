"""gRPC's interoperability cases, mapped onto own methods: by a stock client, direct and through each real proxy.

empty_unary, large_unary, client_compressed_unary, ping_pong, empty_stream, server_streaming, custom_metadata,
status_code_and_message, special_status_message, unimplemented_method and _service, cancel_after_begin and
_first_response, timeout_on_sleeping_server, orca_per_rpc and _oob. The negative cases of that list are about clients;
goaway is in test_rolling_restart.py.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import grpc
import pytest
from certificates import Authority
from echo_dispatcher import echo
from echo_generator import PACE, write_generator
from grpc_health.v1 import health_pb2, health_pb2_grpc
from nightly import nightly
from raw import Peer
from serving import PATIENCE_S, Server, until
from xds.data.orca.v3.orca_load_report_pb2 import OrcaLoadReport
from xds.service.orca.v3.orca_pb2 import OrcaLoadReportRequest

from fastqps.v1 import predict_pb2 as pb
from fastqps.v1.predict_pb2_grpc import PredictServiceStub
from proxies.front import WAYS, must_be_installed, stand_before_one
from proxies.proxy import Certificates

LARGE_IN, LARGE_OUT = 271_828, 314_159
DIMENSIONS = 384
MESSAGE_BYTES_MAX = 4 << 20  # the usual --max-message-bytes
SPECIAL = "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n"
TIMEOUT_S = PATIENCE_S
LOADS = "/xds.service.orca.v3.OpenRcaService/StreamCoreMetrics"


@dataclass(frozen=True)
class Secured:
    """A server and what it takes to speak to it."""

    server: Server
    tls: Certificates | None


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Secured]]:
    """An encoder and a generator, two dispatchers each, secured as asked; after all cases no request is left."""
    servers: dict[str, Secured] = {}

    def start(how: str) -> Secured:
        if how not in servers:
            folder = tmp_path_factory.mktemp(how)
            write_generator(folder / "echo")
            tls, flags = secure(how, folder)
            models = ("--model=minilm", f"--model=echo={folder / 'echo'}", "--max-running=64")
            few = ("--frontdoors=1", "--dispatchers=2", "--load-reports=on")
            servers[how] = Secured(Server(*models, *few, *flags, echo=True), tls)
        return servers[how]

    try:
        yield start
        for one in servers.values():
            one.server.until_idle()
            assert not one.server.metrics()["fastqps_restarts_total"]
            one.server.stop()
    finally:
        for one in servers.values():
            one.server.kill()


def secure(how: str, folder: Path) -> tuple[Certificates | None, tuple[str, ...]]:
    """What a client needs, and the server's flags."""
    if how == "cleartext":
        return None, ()
    authority = Authority(folder)
    flags = authority.pair().flags
    if how == "tls":
        return Certificates(authority.certificate), flags
    client = authority.pair("client")
    mine = Certificates(authority.certificate, client.certificate, client.key)
    return mine, (*flags, f"--tls-client-ca={authority.certificate}")


@dataclass(frozen=True)
class Route:
    """How clients reach which server. ``tls``: what a client itself needs; proxies are reached in cleartext."""

    server: Server
    address: str
    tls: Certificates | None


# By day, what is spoken most: the rest of TLS takes the night.
BY_DAY = [("cleartext", way) for way in WAYS] + [("mtls", "direct")]
BY_NIGHT = [(how, way) for how in ("tls", "mtls") for way in WAYS if (how, way) not in BY_DAY]
ROUTES = [*BY_DAY, *nightly(*((route,) for route in BY_NIGHT))]


@pytest.fixture(scope="module", params=ROUTES, ids="-".join)
def route(request: pytest.FixtureRequest, secured: Callable[[str], Secured]) -> Iterator[Route]:
    how, way = request.param
    must_be_installed(way)
    found = secured(how)
    with stand_before_one(way, found.server, found.tls) as address:
        yield Route(found.server, address, found.tls if way == "direct" else None)


@pytest.fixture
def server(route: Route) -> Server:
    return route.server


@pytest.fixture
def channel(route: Route) -> Iterator[grpc.Channel]:
    """A stock client."""
    tls, address = route.tls, route.address
    with secure_channel(address, tls) if tls else grpc.insecure_channel(address) as channel:
        yield channel


def secure_channel(address: str, tls: Certificates) -> grpc.Channel:
    ca, key, certificate = (path and path.read_bytes() for path in (tls.ca, tls.key, tls.certificate))
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(ca, key, certificate))


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


def test_server_streaming(server: Server, stub: PredictServiceStub) -> None:
    """Tokens come as they are made: no proxy keeps them back. The first is there while the second cannot be."""
    with server.gate() as gate:
        request = pb.PredictRequest(model="echo", token_ids={"ids": [gate.id, *b"slowly"]})
        call = stub.Generate(request, timeout=TIMEOUT_S)
        first = next(call)
        assert first.text == "s"
    assert "".join(chunk.text for chunk in [first, *call]) == "slowly" and call.code() == grpc.StatusCode.OK


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


def test_a_message_that_is_too_large(stub: PredictServiceStub) -> None:
    """The status is the server's own, while most of the message is still to be sent."""
    for _ in range(3):
        error = failed(lambda: stub.Predict(pb.PredictRequest(text="x" * (2 * MESSAGE_BYTES_MAX)), timeout=TIMEOUT_S))
        assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and str(MESSAGE_BYTES_MAX) in error.details()
        check(stub.Predict(ask(2), timeout=TIMEOUT_S), 2)


def test_refusal_of_an_open_stream(channel: grpc.Channel) -> None:
    """Of a bidirectional call that its client has not ended."""

    def asks() -> Iterator[bytes]:
        yield b"\x12\x01a"
        time.sleep(0.3)

    call = channel.stream_stream("/fastqps.v1.PredictService/NoSuchStream")
    assert failed(lambda: list(call(asks(), timeout=TIMEOUT_S))).code() == grpc.StatusCode.UNIMPLEMENTED


def test_cancel_after_begin(server: Server, stub: PredictServiceStub) -> None:
    asks: SimpleQueue[pb.PredictRequest | None] = SimpleQueue()
    with server.gate() as gate:
        asks.put(ask(1, gate.id))
        call = stub.PredictStream(iter(asks.get, None))
        until(lambda: server.work()["fastqps_slots_used"] == 1, "the request runs")
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
    """The client hears it while its step goes on."""
    with server.gate() as gate:
        error = failed(lambda: stub.Predict(ask(1, gate.id), timeout=0.2))
        assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    server.until_idle()


def test_orca_per_rpc(route: Route) -> None:
    """One answer in 100 ms carries the server's load. Stock clients keep it for themselves, so the frames are read."""
    if route.tls:
        pytest.skip("frames are sent in cleartext")
    with Peer(route.address) as peer:
        stream = iter(range(1, 2000, 2))
        body = ask(3, 4).SerializeToString()

        def report() -> str | None:
            return peer.call(next(stream), body).one("endpoint-load-metrics-bin")

        until(lambda: report() is not None, "a report")
        value = peer.answers[max(peer.answers)].one("endpoint-load-metrics-bin") or ""
    check_report(OrcaLoadReport.FromString(base64.b64decode(value + "=" * (-len(value) % 4))))


def test_orca_oob(channel: grpc.Channel) -> None:
    request = OrcaLoadReportRequest(report_interval={"nanos": 10**8})
    stream = channel.unary_stream(LOADS, OrcaLoadReportRequest.SerializeToString, OrcaLoadReport.FromString)
    call = stream(request, timeout=TIMEOUT_S)
    for _ in range(3):
        check_report(next(call))
    call.cancel()


def check_report(report: OrcaLoadReport) -> None:
    assert report.application_utilization > 0 and report.rps_fractional > 0


def test_health(channel: grpc.Channel) -> None:
    health = health_pb2_grpc.HealthStub(channel)
    assert health.Check(health_pb2.HealthCheckRequest(), timeout=TIMEOUT_S).status == 1
    watch = health.Watch(health_pb2.HealthCheckRequest(service="fastqps.v1.PredictService"), timeout=TIMEOUT_S)
    assert next(watch).status == 1
    watch.cancel()
