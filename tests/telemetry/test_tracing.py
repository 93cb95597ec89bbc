"""Traced calls become spans at a collector; what cannot get there is counted, and nobody waits for it."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from posting import Poster
from serving import PATIENCE_S, Server, until

pytest.importorskip("opentelemetry.exporter.otlp.proto.grpc", reason="needs fastqps[tracing]")

from otlp import Receiver, attributes, receiver

from fastqps._core import METHODS, STAGES
from fastqps.cli import main
from fastqps.errors import ConfigError
from fastqps.telemetry.tracing import Tracing, exporter, tracing
from fastqps.telemetry.tracing.exporter import QUEUE_SPANS_MAX, Exporter, find_endpoint
from fastqps.telemetry.tracing.records import stages
from fastqps.v1 import predict_pb2, predict_pb2_grpc

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT_ID = "00f067aa0ba902b7"
SAMPLED = ("traceparent", f"00-{TRACE_ID}-{PARENT_ID}-01")
NOT_SAMPLED = ("traceparent", f"00-{TRACE_ID}-{PARENT_ID}-00")
STATE = ("tracestate", "vendor=1,other=2")
REQUEST = predict_pb2.PredictRequest(text="a trace of a text")
BAD = predict_pb2.PredictRequest(model="nobody", text="a")
SERVER, INTERNAL = 2, 1  # SpanKind
ERROR = 2
LAST = STAGES[-1]


def record(code: int = 0, method: int = 0, at_ns: Sequence[int] | None = None, **at: int) -> Any:
    """A call's record whose times are given by stage, and ``end``; or all of them."""
    times = at_ns or [at.get(name, 0) for name in (*STAGES, "end")]
    return SimpleNamespace(is_item=False, method=method, code=code, at_ns=times)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            record(at_ns=(10, 12, 13, 15, 20, 21, 22, 30, 31, 32, 40)),
            [(name, a, b) for name, a, b in zip(STAGES, (10, 12, 13, 15, 20, 21, 22, 30, 31, 32),
                                                (12, 13, 15, 20, 21, 22, 30, 31, 32, 40), strict=True)],
        ),
        # It expired while it waited: the wait lasts to its end.
        (record(4, receive=10, parse=12, tokenize=13, queue=15, end=50),
         [("receive", 10, 12), ("parse", 12, 13), ("tokenize", 13, 15), ("queue", 15, 50)]),
        (record(8, receive=10, end=20), [("receive", 10, 20)]),
        # A call of many items has none of its own.
        (record(1, METHODS.index("PredictStream"), receive=10, end=20), []),
        # Bytes that a broken process wrote: never outside of the call, never backwards.
        (record(at_ns=(10, 5, 99, 7, 0, 0, 0, 0, 0, 0, 20)),
         [("receive", 10, 10), ("parse", 10, 20), ("tokenize", 20, 20)]),
    ],
)  # fmt: skip
def test_stages_of_a_record(given: Any, expected: list[tuple[str, int, int]]) -> None:
    assert stages(given) == expected


@pytest.mark.parametrize(
    ("flag", "environment", "url"),
    [
        ("", {}, ""),
        ("http://c:1", {}, "http://c:1"),
        ("https://c", {}, "https://c:4317"),
        ("http://[::1]:5/", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://other:1"}, "http://[::1]:5/"),
        ("", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:1"}, "http://c:1"),
        ("", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:1", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://t:2"}, "http://t:2"),
        ("", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:1", "OTEL_SDK_DISABLED": "true"}, ""),
    ],
)  # fmt: skip
def test_where_spans_go(flag: str, environment: dict[str, str], url: str) -> None:
    assert find_endpoint(flag, environment) == (url, "")


@pytest.mark.parametrize(
    "url", ["collector:4317", "ftp://c:1", "http://", "http://c:0", "http://c:99999", "http://c/v1"]
)
def test_bad_collectors(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"^--otlp-endpoint .*: not the URL of an OTLP collector"):
        find_endpoint(url, {})
    found, note = find_endpoint("", {"OTEL_EXPORTER_OTLP_ENDPOINT": url})
    assert not found and note.startswith("no tracing: OTEL_EXPORTER_OTLP_ENDPOINT ")
    monkeypatch.setattr(exporter, "_PACKAGES", ("opentelemetry.no_such_thing",))
    with pytest.raises(ConfigError, match=r"pip install 'fastqps\[tracing\]'"):
        find_endpoint("http://c:1", {})


def test_a_bad_collector_ends_the_start(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--model=minilm", "--device=null", "--port=0", "--admin-port=0", "--http-port=off"]
    assert main(["serve", *flags, "--otlp-endpoint=collector"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "--otlp-endpoint 'collector'" in said


def test_the_exporter_is_bounded_and_counts_everything() -> None:
    gate, turns, calls = threading.Event(), [], []

    def export(spans: Any) -> bool:
        calls.append(len(spans))
        gate.wait(PATIENCE_S)
        if len(calls) == 2:
            raise RuntimeError("of a package that is not ours")
        return len(calls) != 3

    exporter = Exporter(export, turns.append)
    put = 0
    until(lambda: calls or exporter.put(range(700)), "the first export")  # type: ignore[func-returns-value]
    while not exporter.dropped:
        exporter.put(range(700))
        put += 1
        assert put < 20
    gate.set()
    exporter.close(PATIENCE_S)
    total = exporter.exported + exporter.failed + exporter.dropped
    assert total % 700 == 0 and exporter.failed == 512 * 2 and exporter.dropped == 700
    assert max(calls) == 512 and sum(calls) == exporter.exported + exporter.failed <= QUEUE_SPANS_MAX + 512
    assert turns == [False, True]
    begun, never = threading.Event(), threading.Event()
    late = Exporter(lambda spans: begun.set() or never.wait(), turns.append)  # type: ignore[func-returns-value]
    late.put(range(600))
    assert begun.wait(PATIENCE_S)
    late.close(0.2)  # returns, though the collector still thinks
    assert late.dropped == 600 - 512
    never.set()


def by_name(spans: list[tuple[dict[str, Any], Any]]) -> dict[str, list[Any]]:
    found = defaultdict(list)
    for _, span in spans:
        found[span.name].append(span)
    return found


def code_of(span: Any) -> int:
    return int(attributes(span.attributes)["rpc.grpc.status_code"])


def stub(server: Server) -> Any:
    channel = grpc.insecure_channel(server.address)
    return predict_pb2_grpc.PredictServiceStub(channel)


def whole(server: Server, collector: Receiver, calls: int, items: int) -> bool:
    """Whether the spans of so many calls and items are here, and those of their stages, and are as many as the server
    says. A second passes between exports."""
    spans = [span for _, span in collector.spans()]
    found = [
        sum(span.kind == SERVER for span in spans),
        *(sum(s.name == name for s in spans) for name in ("item", LAST)),
    ]
    exported = server.metrics()["fastqps_trace_spans_total{exported}"]
    return found == [calls, items, items + 1] and exported == len(spans)  # one call of one item had an answer


def test_calls_become_spans(serve: Callable[..., Server]) -> None:
    """One of each kind; the client's word on what is traced holds though the ratio would trace nothing."""
    with receiver() as collector:
        flags = ("--frontdoors=1", "--dispatchers=1", f"--otlp-endpoint=http://{collector.address}")
        server = serve(*flags, "--trace-ratio=0", env={"OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test"})
        client = stub(server)
        began_ns = time.time_ns()
        client.Predict(REQUEST, metadata=(SAMPLED, STATE), timeout=PATIENCE_S)
        client.Predict(REQUEST, metadata=(NOT_SAMPLED,), timeout=PATIENCE_S)
        for _ in range(20):
            client.Predict(REQUEST, timeout=PATIENCE_S)
        with pytest.raises(grpc.RpcError):
            client.Predict(BAD, metadata=(SAMPLED,), timeout=PATIENCE_S)
        batch = predict_pb2.PredictBatchRequest(items=[REQUEST] * 20)
        client.PredictBatch(batch, metadata=(SAMPLED,), timeout=PATIENCE_S)
        list(client.PredictStream(iter([REQUEST] * 3), metadata=(SAMPLED,), timeout=PATIENCE_S))
        with closing(Poster(server)) as poster:
            assert poster.send("POST", "/embed", b'{"inputs": "a text"}', **dict([SAMPLED]))[0].status == 200
        methods = ("Predict", "Predict", "PredictBatch", "PredictStream")
        until(lambda: whole(server, collector, calls=len(methods) + 1, items=20), "all spans")
        ended_ns = time.time_ns()
        spans = collector.spans()
        found = by_name(spans)
        calls = [span for _, span in spans if span.kind == SERVER]
        own = [f"fastqps.v1.PredictService/{name}" for name in methods]
        assert sorted(span.name for span in calls) == [*own, "tei.Embed"]
        embed = attributes(found["tei.Embed"][0].attributes)
        assert embed["rpc.method"] == "tei.Embed" and "rpc.service" not in embed and embed["fastqps.items"] == 1
        for resource, span in spans:
            assert resource["service.name"] == "fastqps" or resource["deployment.environment"] == "test"
            assert span.trace_id.hex() == TRACE_ID and span.span_id != b"\0" * 8
            assert began_ns - 10**9 < span.start_time_unix_nano <= span.end_time_unix_nano < ended_ns + 10**9
        assert all(span.parent_span_id.hex() == PARENT_ID for span in calls)
        good, bad = sorted(found["fastqps.v1.PredictService/Predict"], key=code_of)
        told = attributes(good.attributes)
        assert (told["fastqps.model"], told["fastqps.dispatcher"], told["fastqps.batch_items"]) == ("minilm", 0, 1)
        assert told["fastqps.input_tokens"] == 7 and told["fastqps.items"] == 1 and good.trace_state == STATE[1]
        assert code_of(bad) == 5 and bad.status.code != ERROR
        stages = [span for _, span in spans if span.parent_span_id == good.span_id]
        assert [span.name for span in stages] == list(STAGES)
        assert stages[0].start_time_unix_nano == good.start_time_unix_nano
        assert stages[-1].end_time_unix_nano == good.end_time_unix_nano
        for before, after in itertools.pairwise(stages):
            assert before.end_time_unix_nano == after.start_time_unix_nano and before.kind == INTERNAL
        # Of a call of many the first sixteen have spans of their own.
        items = found["item"]
        batches = found["fastqps.v1.PredictService/PredictBatch"][0]
        assert len([i for i in items if i.parent_span_id == batches.span_id]) == 16
        assert attributes(batches.attributes)["fastqps.items"] == 20
        own = [span.name for _, span in spans if span.parent_span_id == items[0].span_id]
        assert own == list(STAGES)
        metrics = server.metrics()
        assert metrics["fastqps_trace_spans_total{dropped}"] == metrics["fastqps_trace_spans_total{failed}"] == 0


def test_of_the_others_a_share_is_traced_and_the_end_exports_the_rest(serve: Callable[..., Server]) -> None:
    with receiver() as collector:
        flags = ("--frontdoors=2", "--dispatchers=1", "--trace-ratio=0.5")
        server = serve(*flags, env={"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{collector.address}"})
        client = stub(server)
        for _ in range(100):
            client.Predict(REQUEST, timeout=PATIENCE_S)
        server.stop()
        calls = [span for _, span in collector.spans() if span.kind == SERVER]
        assert 20 < len(calls) < 80  # 50, and 5 is one standard deviation
        assert len({span.trace_id for span in calls}) == len(calls)
        assert not any(span.parent_span_id for span in calls)


def test_a_collector_that_is_down_costs_spans_and_nothing_else(serve: Callable[..., Server]) -> None:
    with receiver(refuse=True) as collector:
        flags = ("--frontdoors=1", "--dispatchers=1", "--trace-ratio=1")
        server = serve(*flags, f"--otlp-endpoint=http://{collector.address}")
        client = stub(server)
        for _ in range(300):
            client.Predict(REQUEST, timeout=PATIENCE_S)
        until(lambda: server.metrics()["fastqps_trace_spans_total{failed}"] > 0, "spans that are refused")
        until(lambda: "takes no spans, they are dropped" in server.log(), "a line that says so")
        assert "not today" in server.log()
        collector.refuse = False
        for _ in range(20):
            client.Predict(REQUEST, timeout=PATIENCE_S)
        until(lambda: server.metrics()["fastqps_trace_spans_total{exported}"] > 0, "spans that are taken")
        until(lambda: "takes spans again" in server.log(), "a line that says so")
        assert server.log().count("takes no spans") == 1
        collector.hang = threading.Event()  # and at the end it does not answer
        client.Predict(REQUEST, timeout=PATIENCE_S)
        try:
            server.stop()  # which is not held up
        finally:
            collector.hang.set()


def test_a_machine_without_threads_ends_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says why no spans come, and they come again when there are threads."""
    lines: list[str] = []
    segment = SimpleNamespace(sizes=SimpleNamespace(doors=0))
    traced = Tracing("http://127.0.0.1:1", segment, ["minilm"], lines.append)
    monkeypatch.setattr(tracing, "TICK_S", 0.001)
    start, refused, collected = threading.Thread.start, [], []

    def refuse(thread: threading.Thread) -> None:
        if len(refused) == 3:
            start(thread)
            return
        refused.append(thread)
        raise RuntimeError("can't start new thread")

    async def run() -> None:
        monkeypatch.setattr(traced, "collect", collected.append)
        monkeypatch.setattr(threading.Thread, "start", refuse)
        running = asyncio.create_task(traced.run())
        while not collected:
            assert not running.done()
            await asyncio.sleep(0.001)
        running.cancel()

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
    monkeypatch.undo()
    traced.close(0.0)
    assert len(lines) == 1 and "no thread can be started" in lines[0]
