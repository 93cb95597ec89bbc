"""Envoy gives each server the share of the calls that its load reports deserve, and follows when they change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from serving import PATIENCE_S, Server, until

from fastqps.v1 import predict_pb2 as pb
from fastqps.v1.predict_pb2_grpc import PredictServiceStub
from proxies.envoy import Envoy

CALLS = 200
ANSWERED = "fastqps_requests_total{OK,Predict,minilm}"  # not those of the health checks


def report(path: Path, utilization: float, requests_per_second: float = 1000.0) -> None:
    """What the server behind that file says of itself from now on."""
    new = path.with_suffix(".new")
    new.write_text(f"{utilization} {requests_per_second}")
    new.replace(path)


def shares(servers: list[Server], stub: PredictServiceStub) -> list[float]:
    """How the calls are spread."""

    def answered() -> list[float]:
        return [server.metrics().get(ANSWERED, 0.0) for server in servers]

    before = answered()
    for i in range(CALLS):
        stub.Predict(pb.PredictRequest(text="a", request_id=i), timeout=PATIENCE_S)
    until(lambda: sum(answered()) == sum(before) + CALLS, "all are counted")
    return [(now - then) / CALLS for now, then in zip(answered(), before, strict=True)]


def test_envoy_follows_load_reports(serve: Callable[..., Server], tmp_path: Path) -> None:
    """Three times the load of the other: a third of its calls, 10 % more or less; then the other way round."""
    files = [tmp_path / "load0", tmp_path / "load1"]
    for path, utilization in zip(files, (0.9, 0.3), strict=True):
        report(path, utilization)
    flags = ("--frontdoors=1", "--dispatchers=1", "--load-reports=on")
    servers = [serve(*flags, echo=True, env={"TEST_LOAD": str(path)}) for path in files]
    with (
        Envoy([server.address for server in servers], weighted=True) as proxy,
        grpc.insecure_channel(proxy.address) as channel,
    ):
        stub = PredictServiceStub(channel)
        # A report of each has to come back, and Envoy to look at it; who hears nothing balances evenly.
        until(lambda: shares(servers, stub)[0] < 0.28, "the first reports count")
        assert shares(servers, stub) == pytest.approx([0.25, 0.75], rel=0.1)
        report(files[0], 0.3)
        report(files[1], 0.9)
        until(lambda: shares(servers, stub)[0] > 0.72, "the new reports count")
        assert shares(servers, stub) == pytest.approx([0.75, 0.25], rel=0.1)
