"""Damaged and unusual input through a stock client. Each refusal's text: tests/e2e/requests/test_refusals.py; each kind
of damage: csrc/tests/service/test_wire.cpp."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from neighbour import MESSAGE_BYTES_MAX
from serving import PATIENCE_S, Server

from fastqps.v1 import predict_pb2 as pb

PREDICT = "/fastqps.v1.PredictService/Predict"
Code = grpc.StatusCode
LONG = "word " * 300


@pytest.fixture(scope="module")
def channel(server: Server) -> Iterator[grpc.Channel]:
    """One connection for all cases: it survives each of them."""
    with grpc.insecure_channel(server.address, [("grpc.max_send_message_length", -1)]) as channel:
        yield channel
        call = channel.unary_unary(PREDICT, pb.PredictRequest.SerializeToString, pb.PredictResponse.FromString)
        assert call(pb.PredictRequest(text="still here", request_id=3), timeout=PATIENCE_S).request_id == 3


def request(**fields: Any) -> bytes:
    return pb.PredictRequest(**fields).SerializeToString()


BAD = {
    "text not UTF-8": (PREDICT, b"\x12\x02a\xff", Code.INVALID_ARGUMENT, "text: not valid UTF-8"),
    "wire type 6": (PREDICT, b"\x16", Code.INVALID_ARGUMENT, "not valid protobuf"),
    "oversized": (PREDICT, request(text="a" * MESSAGE_BYTES_MAX), Code.RESOURCE_EXHAUSTED, str(MESSAGE_BYTES_MAX)),
    "unknown method": (PREDICT + "s", b"", Code.UNIMPLEMENTED, "unknown method"),
    "batch of another message": (PREDICT + "Batch", b"\x0a\x05ab", Code.INVALID_ARGUMENT, "items"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(channel: grpc.Channel, case: str) -> None:
    path, body, code, words = BAD[case]
    with pytest.raises(grpc.RpcError) as raised:
        channel.unary_unary(path)(body, timeout=PATIENCE_S)
    error: Any = raised.value
    assert error.code() == code and words in error.details(), error


def test_ten_kilobytes_of_headers(channel: grpc.Channel) -> None:
    """Within the limit that the server announces."""
    channel.unary_unary(PREDICT)(request(text="a"), timeout=PATIENCE_S, metadata=[("x-large", "y" * 10_000)])


GOOD = {
    "empty text": (request(text="", request_id=9), 2),
    "empty pair": (request(pair={"first": "", "second": ""}, request_id=9), 3),
    "one id": (request(token_ids={"ids": [0]}, request_id=9), 1),
    "last id": (request(token_ids={"ids": [30521]}, request_id=9), 1),
    "model by name": (request(text="a", model="minilm", request_id=9), 3),
    "unknown fields": (
        request(text="a", request_id=9) + b"\x78\x05" + b"\xa2\x06\x03abc" + b"\xa5\x06\0\0\0\0" + b"\xa3\x06\xa4\x06",
        3,
    ),
    "text twice, the last counts": (request(text=LONG) + request(text="a", request_id=9), 3),
    "text after ids, the last counts": (request(token_ids={"ids": [5] * 9}) + request(text="a", request_id=9), 3),
    "longest ids": (request(token_ids={"ids": [5] * 256}, request_id=9), 256),
    "NUL in the text": (request(text="a\0b", request_id=9), 3),
    "text of 100 KB, cut": (request(text="word " * 20_000, truncate=True, request_id=9), 256),
    "ids cut": (request(token_ids={"ids": [5] * 2000}, truncate=True, request_id=9), 256),
    "largest request id": (request(text="a", request_id=2**64 - 1), 3),
}


@pytest.mark.parametrize("case", GOOD)
def test_unusual_but_good_input(channel: grpc.Channel, case: str) -> None:
    body, tokens = GOOD[case]
    response = pb.PredictResponse.FromString(channel.unary_unary(PREDICT)(body, timeout=PATIENCE_S))
    assert response.request_id == pb.PredictRequest.FromString(body).request_id
    assert response.usage.input_tokens == tokens
    assert response.usage.truncated == ("cut" in case)
    assert len(response.embedding.values) == 384 and not response.HasField("status")
