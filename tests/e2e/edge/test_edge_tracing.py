"""Traces across hops: the span of a server is a child of its edge's, and only what the edge traces is traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import pytest
from serving import PATIENCE_S, Server, until
from upstream_state import edge_of

pytest.importorskip("opentelemetry.exporter.otlp.proto.grpc", reason="needs fastqps[tracing]")

from otlp import attributes, receiver

from fastqps._core import STAGES
from fastqps.v1 import predict_pb2 as pb
from fastqps.v1.predict_pb2_grpc import PredictServiceStub as Stub

TRACE_ID, PARENT_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
STATE = f"vendor=1,another={'x' * 256},rojo={PARENT_ID}"
SAMPLED, NOT_SAMPLED = (
    (("traceparent", f"00-{TRACE_ID}-{PARENT_ID}-0{flag}"), ("tracestate", STATE)) for flag in (1, 0)
)
REQUEST = pb.PredictRequest(text="a trace of a text")
CALL, KIND_SERVER = "Steps", 2


def test_spans_of_both(serve: Callable[..., Server]) -> None:
    """An edge that traces, one that only passes on what its clients say, and one in front of each of them, too."""
    with receiver() as collector:
        traced = f"--otlp-endpoint=http://{collector.address}"
        few = ("--frontdoors=1", "--dispatchers=1")
        server = serve(*few, traced, "--trace-ratio=1", env={"OTEL_SERVICE_NAME": "server"})
        of_edge = ("--dispatchers=1", "--trace-ratio=0")
        edge = edge_of(serve, [server.address], *of_edge, traced, env={"OTEL_SERVICE_NAME": "edge"})
        dark = edge_of(serve, [server.address], *of_edge)
        before = [edge_of(serve, [each.address], *of_edge) for each in (edge, dark)]

        def spans(service: str) -> list[Any]:
            return [span for resource, span in collector.spans() if resource["service.name"] == service]

        def calls() -> list[Any]:
            return [span for span in spans("server") if span.kind == KIND_SERVER]

        with grpc.insecure_channel(edge.address) as channel:
            for metadata in (SAMPLED, NOT_SAMPLED, *[()] * 5):
                Stub(channel).Predict(REQUEST, metadata=metadata, timeout=PATIENCE_S)
            batch = pb.PredictBatchRequest(items=[REQUEST] * 20)
            Stub(channel).PredictBatch(batch, metadata=SAMPLED, timeout=PATIENCE_S)
        with grpc.insecure_channel(dark.address) as channel:
            for metadata in (SAMPLED, NOT_SAMPLED, ()):
                Stub(channel).Predict(REQUEST, metadata=metadata, timeout=PATIENCE_S)
        for front in before:
            with grpc.insecure_channel(front.address) as channel:
                Stub(channel).Predict(REQUEST, metadata=SAMPLED, timeout=PATIENCE_S)
        until(lambda: len(calls()) >= 1 + 16 + 3 and len(spans("edge")) >= 2 + 16 + 1, "all spans")
        server.stop()
        edge.stop()
        own = {span.name: span for span in spans("edge") if span.kind == KIND_SERVER}
        parents = [span.parent_span_id.hex() for span in calls()]
        names = (*(f"fastqps.v1.PredictService/{name}" for name in ("Predict", "PredictBatch")), CALL)
        one, many, hop = (own[name].span_id.hex() for name in names)
        assert {parent: parents.count(parent) for parent in parents} == {one: 1, many: 16, hop: 1, PARENT_ID: 2}
        assert own[CALL].parent_span_id.hex() == PARENT_ID  # of the edge in front, which records nothing
        for span in calls():
            assert (span.name, span.trace_id.hex(), span.trace_state) == (CALL, TRACE_ID, STATE)
            told = attributes(span.attributes)
            assert (told["fastqps.model"], told["fastqps.input_tokens"], told["fastqps.items"]) == ("minilm", 7, 1)
            stages = [each for each in spans("server") if each.parent_span_id == span.span_id]
            assert [each.name for each in stages] == list(STAGES)
            assert stages[0].start_time_unix_nano == span.start_time_unix_nano
