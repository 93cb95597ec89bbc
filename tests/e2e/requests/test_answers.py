"""What a server of the real model answers, through all methods and both clients, against the engine and numpy."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from serving import PATIENCE_S, Server

import fastqps
from fastqps.models import load_card
from fastqps.models.card_tokenizer import load_tokenizer
from fastqps.v1 import predict_pb2 as pb

TEXTS = [
    "",
    "A man is eating food.",
    "A man is eating a piece of bread.",
    "The girl is carrying a baby.",
    "Zürich, 東京 und \N{SLIGHTLY SMILING FACE}",
    "word " * 200,
    *(f"sentence number {i} of some that are alike" for i in range(24)),
]
PAIR = ("A man is eating food.", "The girl is carrying a baby.")


@pytest.fixture(scope="module")
def engine() -> fastqps.Engine:
    return fastqps.Engine("minilm", dtype="float32")


@pytest.fixture(scope="module")
def expected(engine: fastqps.Engine) -> np.ndarray:
    return np.stack(engine.predict(TEXTS))


@pytest.fixture(scope="module")
def server(module_server: Callable[..., Server]) -> Server:
    return module_server("--device=cpu", "--dtype=float32", "--frontdoors=2", "--dispatchers=2")


def close(found: Any, expected: Any) -> bool:
    return bool(np.abs(np.asarray(found) - expected).max() <= 1e-5)


def test_predict(stub: Any, expected: np.ndarray) -> None:
    for i, text in enumerate(TEXTS):
        response = stub.Predict(pb.PredictRequest(text=text, request_id=i), timeout=PATIENCE_S)
        assert response.request_id == i and close(response.embedding.values, expected[i])
        assert not response.HasField("status") and not response.HasField("timings")


def test_predict_at_once(stub: Any, expected: np.ndarray) -> None:
    """Many at a time share batches: the same answers."""
    calls = [stub.Predict.future(pb.PredictRequest(text=text), timeout=PATIENCE_S) for text in TEXTS * 3]
    for i, call in enumerate(calls):
        assert close(call.result().embedding.values, expected[i % len(TEXTS)])


def test_batch(stub: Any, expected: np.ndarray) -> None:
    items = [pb.PredictRequest(text=text, request_id=100 + i) for i, text in enumerate(TEXTS)]
    answer = stub.PredictBatch(pb.PredictBatchRequest(items=items), timeout=PATIENCE_S)
    assert [item.request_id for item in answer.items] == [100 + i for i in range(len(TEXTS))]
    assert close([item.embedding.values for item in answer.items], expected)


def test_stream(stub: Any, expected: np.ndarray) -> None:
    asked = (pb.PredictRequest(text=text, request_id=i) for i, text in enumerate(TEXTS))
    answers = {answer.request_id: answer.embedding.values for answer in stub.PredictStream(asked, timeout=PATIENCE_S)}
    assert close([answers[i] for i in range(len(TEXTS))], expected)


def test_token_ids_and_pair(stub: Any, engine: fastqps.Engine) -> None:
    tokenizer = load_tokenizer(engine.card)
    ids = tokenizer.encode(TEXTS[1]) if tokenizer else []
    by_ids = stub.Predict(pb.PredictRequest(token_ids={"ids": ids}), timeout=PATIENCE_S)
    pair = stub.Predict(pb.PredictRequest(pair={"first": PAIR[0], "second": PAIR[1]}), timeout=PATIENCE_S)
    assert close(by_ids.embedding.values, engine.predict([TEXTS[1]])[0]) and by_ids.usage.input_tokens == len(ids)
    assert close(pair.embedding.values, engine.predict([PAIR])[0])


def test_output_options(stub: Any) -> None:
    """dimensions, normalize and dtype, against numpy on the raw vector."""

    def ask(**output: Any) -> pb.Embedding:
        return stub.Predict(pb.PredictRequest(text=TEXTS[1], output=output), timeout=PATIENCE_S).embedding

    raw = np.array(ask(normalize=False).values, np.float32)
    assert raw.shape == (384,) and abs(np.linalg.norm(raw) - 1) > 0.01
    for dimensions in (0, 1, 64, 384):
        cut = raw[: dimensions or 384]
        for normalize in (None, True, False):
            options: dict[str, Any] = {"dimensions": dimensions}
            if normalize is not None:
                options["normalize"] = normalize
            wanted = cut if normalize is False else cut / np.linalg.norm(cut)
            single = ask(**options)
            assert close(single.values, wanted) and not single.raw and single.dtype == pb.DTYPE_UNSPECIFIED
            half = ask(dtype=pb.DTYPE_FLOAT16, **options)
            assert half.dtype == pb.DTYPE_FLOAT16 and not half.values and len(half.raw) == 2 * len(cut)
            found = np.frombuffer(half.raw, "<f2").astype(np.float32)
            assert (np.abs(found - wanted) <= np.abs(wanted) * 2**-10 + 2**-20).all()
            if normalize is False:
                continue  # refused: tests/e2e/devices/test_int8.py
            byte = ask(dtype=pb.DTYPE_INT8, **options)
            assert byte.dtype == pb.DTYPE_INT8 and len(byte.raw) == len(cut)
            whole = np.frombuffer(byte.raw, np.int8).astype(np.int32)
            assert (np.abs(whole - wanted * 127) <= 0.501).all()


def test_timings(stub: Any) -> None:
    """Only where asked for; in all no more than the client waited. The device's share is the largest one of a real
    model, where nothing else keeps the server waiting: in the best of some tries."""
    shares = []
    while len(shares) < 20 and max(shares, default=0.0) < 0.5:
        began = time.monotonic()
        answer = stub.Predict(pb.PredictRequest(text="word " * 200, output={"timings": True}), timeout=PATIENCE_S)
        waited_us = (time.monotonic() - began) * 1e6
        stages = [getattr(answer.timings, field.name) for field in answer.timings.DESCRIPTOR.fields]
        assert 0 < answer.timings.device_us <= sum(stages) <= waited_us
        shares.append(answer.timings.device_us / sum(stages))
    assert max(shares) >= 0.5, shares
    items = [pb.PredictRequest(text="a", output={"timings": i == 1}) for i in range(3)]
    answers = stub.PredictBatch(pb.PredictBatchRequest(items=items), timeout=PATIENCE_S).items
    assert [item.HasField("timings") for item in answers] == [False, True, False]


def test_model_header(stub: Any, engine: fastqps.Engine) -> None:
    """Every answer says which model gave it."""
    name = f"minilm@{engine.card.version}"
    _, one = stub.Predict.with_call(pb.PredictRequest(text="a"), timeout=PATIENCE_S)
    _, many = stub.PredictBatch.with_call(
        pb.PredictBatchRequest(items=[pb.PredictRequest(text="a")]), timeout=PATIENCE_S
    )
    stream = stub.PredictStream(iter([pb.PredictRequest(text="a")]), timeout=PATIENCE_S)
    list(stream)
    for call in (one, many, stream):
        assert dict(call.initial_metadata())["fastqps-model"] == name


def test_list_models(stub: Any) -> None:
    card = load_card("minilm")
    (model,) = stub.ListModels(pb.ListModelsRequest(), timeout=PATIENCE_S).models
    assert (model.name, model.version, model.task, model.is_default) == ("minilm", card.version, pb.TASK_EMBED, True)
    assert (model.input_tokens_max, model.dimensions, model.native_tokenizer) == (256, 384, True)


def test_usage(stub: Any) -> None:
    usage = stub.Predict(pb.PredictRequest(text="word " * 1000, truncate=True), timeout=PATIENCE_S).usage
    assert (usage.input_tokens, usage.truncated, usage.output_tokens, usage.truncated_at) == (256, True, 0, 256)
    usage = stub.Predict(pb.PredictRequest(text="word"), timeout=PATIENCE_S).usage
    assert (usage.truncated, usage.truncated_at) == (False, 0)
