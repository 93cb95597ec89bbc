"""Calls of many items: how long they may take, and how large they may be."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import grpc
import pytest
from echo_dispatcher import SLOW
from posting import Poster
from serving import PATIENCE_S, Server
from tries import until_in_time

from fastqps.v1 import predict_pb2 as pb
from fastqps.v1 import predict_pb2_grpc

# One item a step of a tenth of a second, so that the call takes three times the default timeout.
FLAGS = ("--frontdoors=1", "--dispatchers=1", "--max-batch-items=1", "--default-timeout=1s")
IDS = [101, SLOW + 10, 102]
COUNT = 30


def post(server: Server, path: str, **fields: Any) -> tuple[int, Any, Any]:
    """Status, document and headers."""
    with closing(Poster(server)) as poster:
        response, content = poster.send("POST", path, json.dumps(fields).encode())
    return response.status, json.loads(content), response.headers


def by_batch(server: Server, count: int = COUNT) -> str:
    with grpc.insecure_channel(server.address) as channel:
        items = [pb.PredictRequest(token_ids={"ids": IDS}) for _ in range(count)]
        answer = predict_pb2_grpc.PredictServiceStub(channel).PredictBatch(pb.PredictBatchRequest(items=items))
    return next((item.status.message for item in answer.items if item.HasField("status")), "")


def by_stream(server: Server, ids: list[int] = IDS) -> str:
    with grpc.insecure_channel(server.address) as channel:
        items = (pb.PredictRequest(token_ids={"ids": ids}, request_id=i) for i in range(COUNT))
        answers = list(predict_pb2_grpc.PredictServiceStub(channel).PredictStream(items))
    return next((item.status.message for item in answers if item.HasField("status")), "")


def by_openai(server: Server, count: int = COUNT) -> str:
    status, found, _ = post(server, "/v1/embeddings", input=[IDS] * count)
    return "" if status == 200 and len(found["data"]) == count else str(found)


def by_tei(server: Server, count: int = COUNT) -> str:
    status, found, _ = post(server, "/embed", inputs=[IDS] * count)
    return "" if status == 200 and len(found) == count else str(found)


def by_open_inference(server: Server) -> str:
    ids = {"name": "input_ids", "datatype": "INT64", "shape": [COUNT, len(IDS)], "data": IDS * COUNT}
    status, found, _ = post(server, "/v2/models/minilm/infer", inputs=[ids])
    return "" if status == 200 and found["outputs"][0]["shape"][0] == COUNT else str(found)


@pytest.mark.parametrize("call", [by_batch, by_stream, by_openai, by_tei, by_open_inference])
def test_a_call_that_takes_longer_than_the_default(
    shared_server: Callable[..., Server], call: Callable[[Server], str]
) -> None:
    """Its items before an item do not count against it."""
    server = shared_server(*FLAGS, echo=True)
    until_in_time(lambda: call(server))


def test_what_can_never_fit_is_refused_for_good(serve: Callable[..., Server]) -> None:
    """No hint when to come back, and no status that clients try again; what fits is named."""
    server = serve(*FLAGS, echo=True)

    def attempt() -> str:
        status, found, headers = post(server, "/v1/embeddings", input=[IDS] * COUNT, timeout=1.5)
        assert status != 200, found
        good = status == 400 and headers["Retry-After"] is None and "1500 ms that its timeout" in str(found)
        return "" if good else str(found)

    until_in_time(attempt)
    server.until_idle()


def test_what_cannot_fit_by_far_ends_when_the_rate_is_known(serve: Callable[..., Server]) -> None:
    """An idle server knows it after a few steps, long before the call's time ends."""
    server = serve(*FLAGS, echo=True)

    def attempt() -> str:
        begun = time.monotonic()
        status, found, headers = post(server, "/embed", inputs=[IDS] * 1000, timeout=20)
        assert status == 400 and headers["Retry-After"] is None, found
        assert "1000 inputs take longer than the 20000 ms that its timeout" in found["error"]
        took_s = time.monotonic() - begun
        return f"{took_s:.1f} s" if took_s > 10 else ""

    until_in_time(attempt)
    server.until_idle()


def test_limits_of_one_call_are_settings(serve: Callable[..., Server]) -> None:
    server = serve("--max-request-items=3", "--max-tokenize-bytes=1KiB", echo=True)
    assert by_openai(server, 3) == by_tei(server, 3) == by_batch(server, 3) == ""
    assert "more than 3 elements" in by_openai(server, 4) and "more than 3 elements" in by_tei(server, 4)
    with pytest.raises(grpc.RpcError, match="4 items, at most 3"):
        by_batch(server, 4)
    assert post(server, "/tokenize", inputs=["a"] * 3)[0] == 200
    for inputs in (["a"] * 4, ["a" * 1024]):
        assert post(server, "/tokenize", inputs=inputs)[0] == 413
    server.until_idle()


def test_a_timeout_beyond_the_default(serve: Callable[..., Server]) -> None:
    """It holds up to --max-timeout; the error says which limit has ended the request."""
    server = serve(*FLAGS[:-1], "--default-timeout=300ms", "--max-timeout=1500ms", echo=True)
    slow = [101, SLOW + 50, 102]
    status, found, _ = post(server, "/v1/embeddings", input=[101, SLOW + 200, 102], timeout=PATIENCE_S)
    assert status == 504 and "--max-timeout has limited its time to 1500 ms" in found["error"]["message"]
    status, found, _ = post(server, "/v1/embeddings", input=slow)
    assert status == 504 and "--default-timeout is 300 ms" in found["error"]["message"]

    def attempt() -> str:
        status, found, _ = post(server, "/v1/embeddings", input=slow, timeout=1.4)
        return "" if status == 200 else str(found)

    until_in_time(attempt)

    def whole() -> str:
        """Each answer begins the time of those behind it anew, but not for ever."""
        message = by_stream(server, [101, SLOW + 12, 102])
        return "" if "--max-timeout has limited its time to 1500 ms" in message else message or "all in time"

    until_in_time(whole)
    server.until_idle()
