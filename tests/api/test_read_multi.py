"""The client reads a vector for each token without the runtime, and gets what the runtime gives."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest

from fastqps.api.prediction import DecodeError, Prediction, PredictionError, _read_multi, read_batch, read_prediction
from fastqps.errors import Internal
from fastqps.v1 import predict_pb2 as pb

VALUES = np.arange(12, dtype=np.float32)


def response(rng: random.Random) -> pb.PredictResponse:
    found = pb.PredictResponse(request_id=rng.choice([0, 1, 300]))
    found.multi.CopyFrom(pb.MultiVector(values=VALUES, dimensions=rng.choice([3, 4]), dtype=rng.choice([0, 1])))
    if rng.random() < 0.5:
        found.usage.CopyFrom(pb.Usage(input_tokens=rng.choice([7, 70000]), truncated=rng.random() < 0.5))
    if rng.random() < 0.5:
        found.timings.CopyFrom(pb.Timings(queue_us=5))
    return found


def check(found: Prediction | PredictionError, expected: pb.PredictResponse) -> None:
    assert isinstance(found, Prediction) and found.multi is not None
    np.testing.assert_array_equal(found.multi, VALUES.reshape(-1, expected.multi.dimensions))
    assert found.multi.flags.writeable and found.request_id == expected.request_id
    assert (found.usage is not None) == expected.HasField("usage")
    assert found.usage is None or found.usage.input_tokens == expected.usage.input_tokens
    assert found.timings is None or found.timings["queue"] == 5


def test_answers_and_batches_of_them() -> None:
    rng = random.Random(6)
    sent = [response(rng) for _ in range(50)]
    for each in sent:
        data = each.SerializeToString()
        assert _read_multi(data, 0, len(data)) is not None
        check(read_prediction(data), each)
    for one, each in zip(read_batch(pb.PredictBatchResponse(items=sent).SerializeToString()), sent, strict=True):
        check(one, each)


def test_other_forms() -> None:
    """Other dtypes, no vector at all, and what makes no sense."""
    half, byte = VALUES.astype(np.float16).tobytes(), bytes(range(12))
    for form in (
        pb.MultiVector(raw=half, dtype=pb.DTYPE_FLOAT16, dimensions=4),
        pb.MultiVector(raw=byte, dtype=pb.DTYPE_INT8, dimensions=4),
    ):
        found = read_prediction(pb.PredictResponse(multi=form).SerializeToString())
        assert isinstance(found, Prediction) and found.multi is not None
        scale = 1 / 127 if form.dtype == pb.DTYPE_INT8 else 1
        np.testing.assert_allclose(found.multi, VALUES.reshape(3, 4) * scale, rtol=1e-6)
    found = read_prediction(pb.PredictResponse(multi=pb.MultiVector(dimensions=4)).SerializeToString())
    assert isinstance(found, Prediction) and found.multi is not None and found.multi.shape == (0, 4)
    for dimensions in (0, 5):
        with pytest.raises(Internal, match=f"12 numbers are no vectors of {dimensions}"):
            wrong = pb.MultiVector(values=VALUES, dimensions=dimensions)
            read_prediction(pb.PredictResponse(multi=wrong).SerializeToString())


def test_damaged_answers_are_the_runtimes_business() -> None:
    data = response(random.Random(1)).SerializeToString()
    for end in range(len(data)):
        try:
            read_prediction(data[:end])
        except (DecodeError, Internal):
            continue
    twice = data + struct.pack("<BB", 0x12, 0)  # an embedding behind it: the last output counts
    found = read_prediction(twice)
    assert isinstance(found, Prediction) and found.multi is None and found.embedding is not None
