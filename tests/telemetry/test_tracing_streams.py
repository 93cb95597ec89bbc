"""Traced generations: streamed, over TLS, and while the model is reloaded beneath them."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from certificates import Authority
from echo_generator import PACE, PACE_MAX, write_generator
from reloading import version_of
from serving import PATIENCE_S, Server, until
from zero_weights import write_zeros

pytest.importorskip("opentelemetry.exporter.otlp.proto.grpc", reason="needs fastqps[tracing]")

from otlp import Receiver, attributes, receiver

from fastqps._core import STAGES
from fastqps.v1 import predict_pb2 as pb
from fastqps.v1 import predict_pb2_grpc

SERVER = 2  # opentelemetry.proto.trace.v1.Span.SpanKind
PROMPT = list(b"the cat sat on the mat")
TOKENS, PACE_MS = 60, 20
OK, CANCELLED = 0, 1


def ask(pace_ms: int = 0) -> pb.PredictRequest:
    options = {"max_tokens": TOKENS, "ignore_eos": True}
    return pb.PredictRequest(token_ids={"ids": [PACE + pace_ms, *PROMPT]}, generate=options)


def calls_of(collector: Receiver) -> dict[str, tuple[Any, dict[str, Any], list[Any]]]:
    """By trace id: the call's span, what it says, and the spans below it."""
    spans = [span for _, span in collector.spans()]
    return {
        span.trace_id.hex(): (
            span,
            attributes(span.attributes),
            [other for other in spans if other.parent_span_id == span.span_id],
        )
        for span in spans
        if span.kind == SERVER
    }


def test_generations_over_tls_while_the_model_is_reloaded(serve: Callable[..., Server], tmp_path: Path) -> None:
    """One that the old dispatcher finishes after the flip, one of the new dispatcher, and one whose client goes."""
    for name in ("one", "two"):
        write_generator(tmp_path / name)
    write_zeros(tmp_path / "two", "two")
    authority = Authority(tmp_path / "certificates")
    with receiver() as collector:
        server = serve(
            *(f"--model=m={tmp_path / 'one'}", *authority.pair().flags, f"--otlp-endpoint=http://{collector.address}"),
            *("--trace-ratio=0", "--max-output-tokens=128", "--frontdoors=1", "--dispatchers=1", "--slots=64"),
            echo=True,
        )
        old = version_of(server)
        trusted = grpc.ssl_channel_credentials(authority.certificate.read_bytes())
        with grpc.secure_channel(server.address, trusted) as channel:
            client = predict_pb2_grpc.PredictServiceStub(channel)
            numbers = itertools.count(1)

            def generate(pace_ms: int = 0) -> tuple[str, Any]:
                trace_id = f"{next(numbers):032x}"
                parent = ("traceparent", f"00-{trace_id}-00f067aa0ba902b7-01")
                return trace_id, client.Generate(ask(pace_ms), metadata=(parent,), timeout=PATIENCE_S)

            first, stream = generate()
            assert len(list(stream)) > 1
            reloading = threading.Thread(target=server.reload, kwargs={"from": str(tmp_path / "two")})
            reloading.start()
            paced = []
            while version_of(server) == old:  # one of these runs when it flips
                trace_id, stream = generate(PACE_MS)
                list(stream)
                paced.append(trace_id)
            last, stream = generate()
            list(stream)
            reloading.join()
            gone, stream = generate(PACE_MAX)  # it does not end before it is cancelled
            next(stream)
            stream.cancel()
            until(lambda: gone in calls_of(collector), f"all spans\n{server.log()}")
        found = calls_of(collector)
        across = [trace_id for trace_id in paced if found[trace_id][1]["fastqps.dispatcher"] == 0][-1]
        told = {name: found[trace_id][1] for name, trace_id in
                (("first", first), ("across", across), ("last", last), ("gone", gone))}  # fmt: skip
        assert [told[name]["fastqps.dispatcher"] for name in ("first", "across", "last")] == [0, 0, 1]
        assert [each["rpc.grpc.status_code"] for each in told.values()] == [OK, OK, OK, CANCELLED]
        for name in ("first", "across", "last"):
            assert told[name]["fastqps.output_tokens"] == TOKENS and told[name]["fastqps.model"] == "m"
            assert told[name]["fastqps.input_tokens"] == 1 + len(PROMPT)
        for trace_id in (first, across, last):
            call, _, stages = found[trace_id]
            assert [stage.name for stage in stages] == list(STAGES)
            edges = [(stage.start_time_unix_nano, stage.end_time_unix_nano) for stage in stages]
            assert all(before[1] == after[0] and before[0] <= before[1] for before, after in itertools.pairwise(edges))
            assert (edges[0][0], edges[-1][1]) == (call.start_time_unix_nano, call.end_time_unix_nano)
        length_ns = found[across][0].end_time_unix_nano - found[across][0].start_time_unix_nano
        assert length_ns > (TOKENS - 1) * PACE_MS * 1_000_000  # to the last token, not to the first
        metrics = server.metrics()
        assert metrics["fastqps_trace_spans_total{dropped}"] == metrics["fastqps_trace_spans_total{failed}"] == 0
