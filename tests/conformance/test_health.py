"""grpc.health.v1 and server reflection, by their stock clients."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from raw import (
    RST_STREAM,
    WATCH,
    Peer,
    block,
    check_good,
    frame,
    message,
    request,
    u32,
    whole_call,
)
from serving import PATIENCE_S, Server

from fastqps.api.reflection import SERVICES

PREDICT = "fastqps.v1.PredictService"
SERVING, SERVICE_UNKNOWN = 1, 3


@pytest.fixture
def channel(server: Server) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.address) as channel:
        yield channel


# ---- T16: health


@pytest.mark.parametrize("service", ["unknown", PREDICT + "2", PREDICT[:-1], "x" * 5000])
def test_check_unknown(channel: grpc.Channel, service: str) -> None:
    with pytest.raises(grpc.RpcError) as raised:
        health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=service), timeout=PATIENCE_S)
    assert raised.value.code() == grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize(("service", "status"), [("", SERVING), (PREDICT, SERVING), ("unknown", SERVICE_UNKNOWN)])
def test_watch(peer: Peer, service: str, status: int) -> None:
    """The state at once, then nothing until it changes; the stream stays open, also for an unknown service."""
    asked = health_pb2.HealthCheckRequest(service=service).SerializeToString()
    peer.send(whole_call(1, message(asked), block(request(WATCH))))
    peer.until(lambda: 1 in peer.answers and bool(peer.answers[1].messages), "the first state")
    peer.linger(0.2)
    answer = peer.answers[1]
    assert [health_pb2.HealthCheckResponse.FromString(m).status for m in answer.messages] == [status]
    assert not answer.ended and answer.reset is None
    peer.send(frame(RST_STREAM, 0, 1, u32(8)))
    check_good(peer.call(3))


def test_every_service_that_reflection_lists_has_a_health(channel: grpc.Channel) -> None:
    stub, asked = health_pb2_grpc.HealthStub(channel), health_pb2.HealthListRequest()
    answer = stub.List(asked, timeout=PATIENCE_S)
    listed = set(ProtoReflectionDescriptorDatabase(channel).get_services())
    assert listed | {""} <= set(answer.statuses) and PREDICT in listed
    assert {status.status for status in answer.statuses.values()} == {SERVING}
    for name in listed:
        assert stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=PATIENCE_S).status == SERVING


def test_authority_of_envoys_checker(peer: Peer) -> None:
    """Envoy puts the cluster's name there, which is no authority by the letter; its checks are answered."""
    answer = peer.call(1, b"", request("/grpc.health.v1.Health/Check", authority="outbound|50051||svc"))
    assert (answer.http, answer.status) == (200, 0)
    assert [health_pb2.HealthCheckResponse.FromString(body).status for body in answer.messages] == [SERVING]


# ---- reflection


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_reflection(channel: grpc.Channel, version: str) -> None:
    """Both versions have the same messages."""
    reflect = channel.stream_stream(
        f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
        reflection_pb2.ServerReflectionRequest.SerializeToString,
        reflection_pb2.ServerReflectionResponse.FromString,
    )
    asked = [
        reflection_pb2.ServerReflectionRequest(list_services=""),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol=f"{PREDICT}.Predict"),
        reflection_pb2.ServerReflectionRequest(file_by_filename="no/such.proto"),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol="no.Such"),
    ]
    services, file, *missing = list(reflect(iter(asked), timeout=PATIENCE_S))
    assert {service.name for service in services.list_services_response.service} == set(SERVICES)
    assert file.file_descriptor_response.file_descriptor_proto
    assert [answer.error_response.error_code for answer in missing] == [grpc.StatusCode.NOT_FOUND.value[0]] * 2
    assert [answer.original_request for answer in missing] == asked[2:]


def test_reflection_makes_messages(channel: grpc.Channel) -> None:
    """A client that knows nothing but the address builds a request from what the server says about itself."""
    database = ProtoReflectionDescriptorDatabase(channel)
    pool = DescriptorPool(database)
    method = pool.FindServiceByName(PREDICT).FindMethodByName("Predict")
    ask, answer = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
    call = channel.unary_unary(f"/{PREDICT}/Predict", ask.SerializeToString, answer.FromString)
    assert call(ask(text="a", request_id=5), timeout=PATIENCE_S).request_id == 5
