"""The server's load as balancers hear it: in trailers, by the out-of-band service, and what grpc's own makes of it."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from capacity_files import capacity_file
from neighbour import Neighbour
from serving import PATIENCE_S, Server, until

from fastqps.v1 import predict_pb2, predict_pb2_grpc

orca_load_report_pb2 = pytest.importorskip("xds.data.orca.v3.orca_load_report_pb2", reason="needs xds-protos")
OrcaLoadReport = orca_load_report_pb2.OrcaLoadReport
orca_pb2 = pytest.importorskip("xds.service.orca.v3.orca_pb2", reason="needs xds-protos")

TRAILER = b"endpoint-load-metrics-bin"
STREAM = "/xds.service.orca.v3.OpenRcaService/StreamCoreMetrics"
REQUEST = predict_pb2.PredictRequest(text="a")
SERVE = ("--frontdoors=1", "--dispatchers=1")
SHARE_OFF_MAX = 0.1


def of_rate(path: Path, rate: float) -> str:
    """The capacity file of a server whose saturation is its rate over ``rate``, whatever the machine does meanwhile."""
    at_knee = {"dispatcher": 1e6, "frontdoor": 1e6, "device_load": 1e6}
    return capacity_file(path, rate=rate, in_flight=1e9, slo={"p99_us": 1e9}, at_knee=at_knee)


class Caller(Neighbour):
    """A connection of its own: grpc's client keeps reports to itself."""

    def report(self) -> Any:
        """The report that the answer to one call carries; None: none."""
        found = dict(self.check().trailers).get(TRAILER)
        if found is None:
            return None
        assert not found.endswith(b"=")  # binary headers have no padding on the wire
        return OrcaLoadReport.FromString(base64.b64decode(found + b"=" * (-len(found) % 4), validate=True))


def reports(channel: grpc.Channel, interval_s: float) -> Any:
    request = orca_pb2.OrcaLoadReportRequest()
    request.report_interval.FromNanoseconds(int(interval_s * 1e9))
    method = channel.unary_stream(STREAM, orca_pb2.OrcaLoadReportRequest.SerializeToString, OrcaLoadReport.FromString)
    return method(request, timeout=PATIENCE_S)


def test_reports_in_trailers_and_as_a_stream(serve: Callable[..., Server], tmp_path: Path) -> None:
    server = serve(*SERVE, "--load-reports=on", f"--capacity={of_rate(tmp_path / 'c.json', 1000)}")
    caller = Caller(server.address)
    with grpc.insecure_channel(server.address) as channel:
        until(caller.report, "an answer with a report")
        time.sleep(0.15)
        report = caller.report()
        began = time.monotonic()
        carried = sum(caller.report() is not None for _ in range(50))
        assert report and carried <= (time.monotonic() - began) / 0.1 + 1
        assert report.rps_fractional >= 0.001 and report.application_utilization >= 0.001
        assert 0 <= report.mem_utilization <= 1 and report.rps == 0
        assert set(report.named_metrics) == {"queue_wait_seconds", "requests_waiting", "requests_running"}

        def busier() -> bool:
            found = caller.report()
            return found is not None and found.rps_fractional > 10

        until(busier, "a report of the load of this test")
        begin = time.monotonic()
        stream = reports(channel, 0.2)
        told = [next(stream) for _ in range(4)]
        assert time.monotonic() - begin >= 0.59  # the first at once, then three intervals
        assert all(one.application_utilization > 0.001 for one in told)
        # The rate over what it can be: with this capacity file nothing else counts.
        assert told[-1].application_utilization == pytest.approx(told[-1].rps_fractional / 1000, rel=0.5)
        server.stop()  # a stream of reports does not hold up the end
        with pytest.raises(grpc.RpcError) as raised:
            list(stream)
        assert raised.value.code() == grpc.StatusCode.UNAVAILABLE


def test_trailers_are_opt_in_and_the_stream_is_not(shared_server: Callable[..., Server]) -> None:
    server = shared_server(*SERVE)
    caller = Caller(server.address)
    with grpc.insecure_channel(server.address) as channel:
        stream = reports(channel, 0)
        assert next(stream).application_utilization > 0
        assert not any(caller.report() for _ in range(20))
        stream.cancel()


@pytest.mark.parametrize("out_of_band", [False, True], ids=["trailers", "stream"])
def test_grpc_weighted_round_robin_follows(serve: Callable[..., Server], tmp_path: Path, out_of_band: bool) -> None:
    """At the same rate the smaller server is three times as busy as the larger: it gets a third of its calls."""
    flags = (*SERVE, f"--load-reports={'off' if out_of_band else 'on'}")
    rates = (1000, 3000)
    servers = [serve(*flags, f"--capacity={of_rate(tmp_path / f'{rate}.json', rate)}") for rate in rates]
    policy = {
        "blackoutPeriod": "0.1s",
        "weightUpdatePeriod": "0.2s",
        "enableOobLoadReport": out_of_band,
        "oobReportingPeriod": "0.1s",
    }
    config = json.dumps({"loadBalancingConfig": [{"weighted_round_robin": policy}]})
    target = "ipv4:" + ",".join(server.address for server in servers)
    with grpc.insecure_channel(target, options=[("grpc.service_config", config)]) as channel:
        stub = predict_pb2_grpc.PredictServiceStub(channel)

        def shares() -> float:
            """Of 400 calls, the part that came to the smaller server."""
            before = [answered(server) for server in servers]
            for _ in range(400):
                stub.Predict(REQUEST, timeout=PATIENCE_S)
            came = [answered(server) - then for server, then in zip(servers, before, strict=True)]
            assert sum(came) == 400
            return came[0] / 400

        until(lambda: abs(shares() - 0.25) <= 0.25 * SHARE_OFF_MAX, "a quarter of the calls, within a tenth of it")


def answered(server: Server) -> float:
    return server.metrics()["fastqps_requests_total{OK,Predict,minilm}"]
