"""Bad input through a stock client: each kind has its own clear status, and nobody else notices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Case:
    body: bytes
    code: Code
    words: tuple[str, ...]
    path: str = PREDICT
    options: tuple[tuple[str, Any], ...] = ()


def request(**fields: Any) -> bytes:
    return pb.PredictRequest(**fields).SerializeToString()


BAD = {
    "no input": Case(b"", Code.INVALID_ARGUMENT, ("input", "text", "token ids", "pair")),
    "no input but others": Case(request(request_id=1, truncate=True), Code.INVALID_ARGUMENT, ("input",)),
    "no token ids": Case(request(token_ids={}), Code.INVALID_ARGUMENT, ("token_ids",)),
    "text too long": Case(request(text=LONG), Code.INVALID_ARGUMENT, ("text", "302", "256", "truncate")),
    "ids too many": Case(request(token_ids={"ids": [5] * 257}), Code.INVALID_ARGUMENT, ("token_ids", "257", "256")),
    "pair too long": Case(request(pair={"first": LONG, "second": "b"}), Code.INVALID_ARGUMENT, ("pair", "256")),
    "id outside the vocabulary": Case(
        request(token_ids={"ids": [101, 30522]}), Code.INVALID_ARGUMENT, ("token_ids", "30522")
    ),
    "text not UTF-8": Case(b"\x12\x02a\xff", Code.INVALID_ARGUMENT, ("text", "UTF-8")),
    "text with a surrogate": Case(b"\x12\x03\xed\xa0\x80", Code.INVALID_ARGUMENT, ("text", "UTF-8")),
    "text overlong": Case(b"\x12\x02\xc0\x80", Code.INVALID_ARGUMENT, ("text", "UTF-8")),
    "model not UTF-8": Case(b"\x0a\x01\xff" + request(text="a"), Code.INVALID_ARGUMENT, ("model", "UTF-8")),
    "pair not UTF-8": Case(b"\x52\x03\x12\x01\xff", Code.INVALID_ARGUMENT, ("pair.second", "UTF-8")),
    "unknown model": Case(request(model="no-such", text="a"), Code.NOT_FOUND, ("no-such",)),
    "model's name too long": Case(request(model="m" * 5000, text="a"), Code.NOT_FOUND, ("mmm",)),
    "model in other case": Case(request(model="MiniLM", text="a"), Code.NOT_FOUND, ("MiniLM",)),
    # By protobuf's rules a field of another wire type is an unknown field: nothing is left to answer.
    "text of another wire type": Case(b"\x10\x01", Code.INVALID_ARGUMENT, ("input",)),
    "wire type 6": Case(b"\x16", Code.INVALID_ARGUMENT, ("protobuf",)),
    "wire type 7": Case(request(text="a") + b"\x17\x00", Code.INVALID_ARGUMENT, ("protobuf",)),
    "group without an end": Case(request(text="a") + b"\x33", Code.INVALID_ARGUMENT, ("protobuf",)),
    "end of no group": Case(request(text="a") + b"\x34", Code.INVALID_ARGUMENT, ("protobuf",)),
    "field number 0": Case(b"\x02\x01a", Code.INVALID_ARGUMENT, ("protobuf",)),
    "truncated text": Case(b"\x12\x05ab", Code.INVALID_ARGUMENT, ("text", "protobuf")),
    "truncated tag": Case(request(text="a") + b"\x80", Code.INVALID_ARGUMENT, ("protobuf",)),
    "truncated number": Case(request(text="a") + b"\x20\xff", Code.INVALID_ARGUMENT, ("request_id",)),
    "number of 11 bytes": Case(b"\x20" + b"\xff" * 10 + b"\x01", Code.INVALID_ARGUMENT, ("request_id",)),
    "random bytes": Case(bytes(range(200, 256)), Code.INVALID_ARGUMENT, ("protobuf",)),
    "unknown priority": Case(request(text="a", priority=9), Code.INVALID_ARGUMENT, ("priority",)),
    "unknown dtype": Case(request(text="a", output={"dtype": 77}), Code.INVALID_ARGUMENT, ("output.dtype",)),
    "too many dimensions": Case(
        request(text="a", output={"dimensions": 385}), Code.INVALID_ARGUMENT, ("output.dimensions", "385", "384")
    ),
    "generation": Case(request(text="a", generate={}), Code.INVALID_ARGUMENT, ("generate",)),
    "oversized message": Case(
        request(text="a" * MESSAGE_BYTES_MAX), Code.RESOURCE_EXHAUSTED, (str(MESSAGE_BYTES_MAX),)
    ),
    "unknown method": Case(
        b"", Code.UNIMPLEMENTED, ("unknown method", "Nothing"), path="/fastqps.v1.PredictService/Nothing"
    ),
    "unknown service": Case(b"", Code.UNIMPLEMENTED, ("unknown service", "not.There"), path="/not.There/Predict"),
    "generate": Case(
        request(text="a"), Code.INVALID_ARGUMENT, ("model", "generate"), path="/fastqps.v1.PredictService/Generate"
    ),
    "batch of another message": Case(
        b"\x0a\x05ab", Code.INVALID_ARGUMENT, ("items",), path="/fastqps.v1.PredictService/PredictBatch"
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(channel: grpc.Channel, case: str) -> None:
    row = BAD[case]
    with pytest.raises(grpc.RpcError) as raised:
        channel.unary_unary(row.path)(row.body, timeout=PATIENCE_S)
    error: Any = raised.value
    assert error.code() == row.code, error
    assert all(word in error.details() for word in row.words), error.details()


def test_ten_thousand_headers(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as raised:
        metadata = [(f"x-{i}", "y") for i in range(10_000)]
        channel.unary_unary(PREDICT)(request(text="a"), timeout=PATIENCE_S, metadata=metadata)
    assert raised.value.code() == Code.RESOURCE_EXHAUSTED, raised.value


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


def test_bad_items_of_a_batch(channel: grpc.Channel) -> None:
    """Each item has its own status, and the others are answered."""
    items = [case.body for case in BAD.values() if case.path == PREDICT and case.code != Code.RESOURCE_EXHAUSTED]
    good = request(text="good", request_id=1)
    mixed = [body for item in items for body in (item, good)]
    frames = b"".join(b"\x0a" + varint(len(item)) + item for item in mixed)
    answer = channel.unary_unary("/fastqps.v1.PredictService/PredictBatch")(frames, timeout=PATIENCE_S)
    answers = pb.PredictBatchResponse.FromString(answer).items
    assert len(answers) == len(mixed)
    assert all(a.request_id == 1 and not a.HasField("status") for a in answers[1::2])
    expected = [c.code.value[0] for c in BAD.values() if c.path == PREDICT and c.code != Code.RESOURCE_EXHAUSTED]
    assert [a.status.code for a in answers[::2]] == expected
    assert all(a.status.message for a in answers[::2])


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])
