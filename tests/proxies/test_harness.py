"""Each real proxy starts from its file under examples/, and calls reach every server behind it."""

from __future__ import annotations

from collections.abc import Callable

import grpc
import pytest
from serving import Server

from fastqps.v1 import predict_pb2 as pb
from fastqps.v1 import predict_pb2_grpc
from proxies.envoy import Envoy
from proxies.haproxy import HAProxy
from proxies.nginx import Nginx
from proxies.proxy import Proxy


@pytest.mark.parametrize("kind", [Envoy, HAProxy, Nginx])
def test_calls_reach_all_servers(serve: Callable[..., Server], kind: type[Proxy]) -> None:
    servers = [serve("--frontdoors=1", "--dispatchers=1", echo=True) for _ in range(2)]
    admins = [server.admin for server in servers]
    with kind([s.address for s in servers], admins=admins) as proxy, grpc.insecure_channel(proxy.address) as channel:
        stub = predict_pb2_grpc.PredictServiceStub(channel)
        calls = [stub.Predict.future(pb.PredictRequest(text="a", request_id=i), timeout=20) for i in range(200)]
        assert [call.result().request_id for call in calls] == [*range(200)]
    answered = [server.metrics()["fastqps_requests_total"] for server in servers]
    assert sum(answered) >= 200 and min(answered) > 20, answered
