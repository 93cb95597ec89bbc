"""Reading answers from their bytes, and splitting requests into batches: what both clients share."""

import struct
import time
from collections.abc import Callable, Iterable

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from tries import unmet, until_in_time

from fastqps.api import prediction, request
from fastqps.client.answers import split_batches
from fastqps.v1 import predict_pb2 as pb

pytestmark = pytest.mark.compute

RESPONSE = pb.PredictResponse(embedding=pb.Embedding(values=np.arange(384) / 384), usage=pb.Usage())


def shapes() -> Iterable[tuple[str, bytes]]:
    """One answer, written in every way that the format allows: the fast way to read it must see the same."""
    values = struct.pack("<3f", 1, -2, 0.5)
    packed = b"\x0a\x0c" + values
    embedding = b"\x12" + bytes([len(packed)]) + packed
    yield "plain", b"\x08\x07" + embedding
    yield "with usage", b"\x08\x07" + embedding + b"\x3a\x02\x08\x05"
    yield "with a dtype", b"\x08\x07\x12\x10" + packed + b"\x18\x01"
    yield "with a field from the future", b"\x08\x07" + embedding + b"\x78\x01"
    yield "embedding first", embedding + b"\x08\x07"
    yield "request_id twice", b"\x08\x01" + embedding + b"\x08\x07"
    yield "not packed", b"\x08\x07\x12\x0f" + b"".join(b"\x0d" + values[i : i + 4] for i in (0, 4, 8))
    yield (
        "in two pieces",
        b"\x08\x07\x12\x0c\x0a\x04" + values[:4] + b"\x0a\x04" + values[4:8] + b"\x12\x06\x0a\x04" + values[8:],
    )
    yield "long numbers", b"\x08\x87\x80\x00\x12\x8e\x80\x00" + packed
    yield "another output before", b"\x08\x07\x1a\x00" + embedding
    yield "an OK status", b"\x08\x07" + embedding + b"\x32\x00"


@pytest.mark.parametrize(("name", "data"), [*shapes()], ids=[name for name, _ in shapes()])
def test_every_shape_of_an_embedding_is_read(name: str, data: bytes) -> None:
    message = pb.PredictResponse.FromString(data)
    assert (message.request_id, list(message.embedding.values)) == (7, [1, -2, 0.5]), "the test's own bytes"
    frame = b"\x0a" + bytes([len(data)]) + data
    future = b"\x78\x01"
    for result in (
        prediction.read_prediction(data),
        *prediction.read_batch(frame + frame),
        *prediction.read_batch(frame + future + frame),
    ):
        assert isinstance(result, prediction.Prediction)
        assert result.request_id == 7 and result.embedding is not None and result.embedding.tolist() == [1, -2, 0.5]


def test_an_output_that_replaces_the_embedding_wins() -> None:
    data = b"\x12\x06\x0a\x04\0\0\0\0\x1a\x05\x0a\x03\x0a\x01z"
    result = prediction.read_prediction(data)
    assert isinstance(result, prediction.Prediction) and result.embedding is None
    assert result.labels == [prediction.Label("z", 0.0, 0)]


def test_damaged_answers_are_errors_and_never_wrong_values() -> None:
    good = pb.PredictBatchResponse(items=[RESPONSE]).SerializeToString()
    for size in range(1, len(good)):
        with pytest.raises(DecodeError):
            prediction.read_batch(good[:size])
    item = good[3:]
    assert isinstance(prediction.read_prediction(item), prediction.Prediction)
    for size in range(2, len(item) - 2):  # without the two bytes of usage it is whole again
        with pytest.raises(DecodeError):
            prediction.read_prediction(item[:size])


def test_batches_are_split_by_items_and_bytes() -> None:
    def sizes(messages: list[pb.PredictRequest]) -> list[int]:
        asked = [request.Asked(message) for message in messages]
        return [len(batch.message.items) for batch in split_batches(asked, request.BATCH_ITEMS_MAX)]

    small, large = pb.PredictRequest(text="a"), pb.PredictRequest(text="x" * (request.BATCH_BYTES_MAX + 1))
    assert sizes([]) == []
    assert sizes([small] * 256) == [256] and sizes([small] * 257) == [256, 1]
    assert sizes([small, large, small]) == [1, 1, 1]


def test_reading_an_embedding_is_much_cheaper_than_boxing_its_floats() -> None:
    data = RESPONSE.SerializeToString()

    def best_of(call: Callable[[], object]) -> float:
        times = []
        for _ in range(30):
            begin = time.perf_counter()
            for _ in range(50):
                call()
            times.append(time.perf_counter() - begin)
        return min(times)

    def compare() -> str:
        ours = best_of(lambda: prediction.read_prediction(data))
        theirs = best_of(lambda: list(pb.PredictResponse.FromString(data).embedding.values))
        return unmet(half_the_time=ours * 2 < theirs)

    until_in_time(compare)
