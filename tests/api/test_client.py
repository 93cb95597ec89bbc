"""Both clients against a small server on grpcio, with answers of every shape that a server may write."""

import asyncio
import pickle
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent import futures
from functools import partial
from typing import Any, NamedTuple

import grpc
import numpy as np
import pytest
import uvloop
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_server import grpc_server
from serving import PATIENCE_S, until

import fastqps
from fastqps import errors
from fastqps.api import prediction, rpc
from fastqps.v1 import predict_pb2 as pb
from fastqps.v1 import predict_pb2_grpc

LATE_S = 4.0  # how long the second batch with a text `… late` takes


def vector(text: str, dimensions: int = 384) -> np.ndarray:
    return np.random.default_rng(zlib.crc32(text.encode())).standard_normal(dimensions, dtype=np.float32)


refused: Counter[str] = Counter()


def answer(item: pb.PredictRequest) -> pb.PredictResponse:
    """Embeds texts, labels pairs. A text `fail CODE MESSAGE` fails; `echo` fields come back in `usage`. A text `full N`
    is refused with a hint the first N times."""
    out = pb.PredictResponse(request_id=item.request_id)
    match item.WhichOneof("input"):
        case "text" if item.text.startswith("fail "):
            _, code, message = item.text.split(" ", 2)
            out.status.CopyFrom(pb.Status(code=int(code), message=message, retry_after_ms=70 if code == "8" else 0))
        case "text" if item.text.startswith("full ") and refused[item.text] < int(item.text.split()[1]):
            refused[item.text] += 1
            out.status.CopyFrom(pb.Status(code=8, message="the queue is full", retry_after_ms=20))
        case "text" if item.output.dtype == pb.DTYPE_FLOAT16:
            raw = vector(item.text).astype("<f2").tobytes()
            out.embedding.CopyFrom(pb.Embedding(raw=raw, dtype=pb.DTYPE_FLOAT16))
        case "text" if item.output.dtype == pb.DTYPE_INT8:
            out.embedding.CopyFrom(pb.Embedding(raw=struct.pack("3b", -127, 0, 127), dtype=pb.DTYPE_INT8))
        case "text":
            out.embedding.CopyFrom(pb.Embedding(values=vector(item.text), dtype=item.output.dtype))
        case "token_ids":
            out.embedding.CopyFrom(pb.Embedding(values=item.token_ids.ids))
        case "pair":
            ranks = item.pair.first == "rank"
            score = len(item.pair.second) / 8 if ranks else 0.5
            label = pb.Label(name=f"{item.pair.first}|{item.pair.second}", score=score, index=2)
            out.classification.labels.extend([label] * (1 if ranks else item.output.top_labels or 3))
        case None:
            out.status.CopyFrom(pb.Status(code=3, message="input: none"))
    out.usage.CopyFrom(pb.Usage(input_tokens=item.timeout_us, output_tokens=item.priority, truncated=item.truncate))
    if item.output.timings:
        out.timings.CopyFrom(pb.Timings(parse_us=1, device_us=200))
    return out


class Servicer(predict_pb2_grpc.PredictServiceServicer):
    def __init__(self) -> None:
        self.batches: list[int] = []
        self.models: list[str] = []
        self.peers: set[str] = set()
        self.tenants = ("", "", "")  # of the last call: in metadata, in the request, and the request's group
        self.may_answer = threading.Event()  # "wait"

    def Predict(self, item: pb.PredictRequest, context: Any) -> pb.PredictResponse:
        self.models.append(item.model)
        self.peers.add(context.peer())
        self.tenants = dict(context.invocation_metadata()).get("fastqps-tenant", ""), item.tenant, item.group
        if item.text == "wait":
            self.may_answer.wait(PATIENCE_S)
        out = answer(item)
        if out.status.code:
            if out.status.retry_after_ms:
                context.set_trailing_metadata([("grpc-retry-pushback-ms", str(out.status.retry_after_ms))])
            code = next(c for c in grpc.StatusCode if c.value[0] == out.status.code)
            context.abort(code, out.status.message)
        return out

    def PredictBatch(self, batch: pb.PredictBatchRequest, context: Any) -> pb.PredictBatchResponse:
        self.batches.append(len(batch.items))
        self.models += [item.model for item in batch.items]
        if any(item.text == "fail the call" for item in batch.items):
            context.abort(grpc.StatusCode.UNAVAILABLE, "draining")
        if any(item.text.endswith(" late") for item in batch.items) and len(self.batches) > 1:
            time.sleep(LATE_S)
        return pb.PredictBatchResponse(items=[answer(item) for item in batch.items])

    def PredictStream(self, items: Iterator[pb.PredictRequest], context: Any) -> Iterator[pb.PredictResponse]:
        """Answers in pairs, the second first, and what is left at the end."""
        kept: list[pb.PredictResponse] = []
        for item in items:
            if item.text == "hang up":
                return
            if item.text == "fail the call":
                context.abort(grpc.StatusCode.UNAVAILABLE, "draining")
            kept.append(answer(item))
            if len(kept) == 2:
                yield from reversed(kept)
                kept = []
        yield from kept

    def ListModels(self, _request: pb.ListModelsRequest, _context: Any) -> pb.ListModelsResponse:
        embed = pb.Model(name="minilm", version="0123456789ab", task=pb.TASK_EMBED, is_default=True, dimensions=384)
        return pb.ListModelsResponse(models=[embed, pb.Model(name="new", task=9, labels=["a", "b"])])


class Health(health_pb2_grpc.HealthServicer):
    status = health_pb2.HealthCheckResponse.SERVING

    def Check(self, _request: Any, _context: Any) -> Any:
        return health_pb2.HealthCheckResponse(status=self.status)


class Server(NamedTuple):
    address: str
    service: Servicer
    health: Health


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    service, health = Servicer(), Health()
    with grpc_server(
        partial(predict_pb2_grpc.add_PredictServiceServicer_to_server, service),
        partial(health_pb2_grpc.add_HealthServicer_to_server, health),
    ) as address:
        yield Server(address, service, health)


@pytest.fixture
def client(connect: Callable[..., Any], server: Server) -> Iterator[Any]:
    with connect(server.address) as client:
        yield client


# ---- calls


def test_embed_gives_one_row_for_each_text(client: Any) -> None:
    texts = ["a", "", "żółć", "a longer text"]
    vectors = client.embed(texts)
    assert vectors.dtype == np.float32 and vectors.shape == (4, 384)
    np.testing.assert_array_equal(vectors, [vector(text) for text in texts])
    assert client.embed([]).shape == (0, 0)


def test_embed_splits_many_texts_and_keeps_their_order(client: Any, server: Server) -> None:
    server.service.batches.clear()
    texts = [f"text {i}" for i in range(1500)]
    np.testing.assert_array_equal(client.embed(texts), [vector(text) for text in texts])
    assert sorted(server.service.batches) == [220] + [256] * 5
    server.service.batches.clear()
    client.embed(["x" * 400_000] * 5)
    assert sorted(server.service.batches) == [1, 2, 2]


def test_an_embedding_is_an_ordinary_array(client: Any) -> None:
    embedding = client.predict("a").embedding
    assert embedding.flags.aligned and embedding.flags.writeable and embedding.flags.owndata
    np.testing.assert_array_equal(embedding, vector("a"))


def test_a_printed_prediction_fits_on_a_line(client: Any) -> None:
    assert repr(client.predict("a")).startswith("Prediction(request_id=0, embedding=<float32 [384]>, usage=")


def test_predict_takes_text_pairs_ids_and_messages(client: Any) -> None:
    np.testing.assert_array_equal(client.predict([5, 300, 7]).embedding, [5, 300, 7])
    np.testing.assert_array_equal(client.predict(np.array([5, 6])).embedding, [5, 6])
    assert client.predict([]).embedding.shape == (0,)
    (first, second) = client.predict(("one", "two"), top_labels=2).labels
    assert (first.name, first.score, first.index) == ("one|two", 0.5, 2) and second == first
    message = pb.PredictRequest(text="a", request_id=2**63)
    assert client.predict(message).request_id == 2**63
    assert message == pb.PredictRequest(text="a", request_id=2**63), "the caller's message was changed"


def test_options_arrive(client: Any) -> None:
    out = client.predict("a", priority="high", truncate=True, timings=True, dtype="float32")
    assert out.usage == prediction.Usage(input_tokens=0, output_tokens=pb.PRIORITY_HIGH, truncated=True)
    assert out.timings["parse"] == 1 and out.timings["device"] == 200 and len(out.timings) == 9
    np.testing.assert_array_equal(out.embedding, vector("a"))
    half = client.predict("a", dtype="float16").embedding
    assert half.dtype == np.float32
    np.testing.assert_array_equal(half, vector("a").astype(np.float16))
    np.testing.assert_array_equal(client.predict("a", dtype="int8").embedding, [-1, 0, 1])


def test_the_model_is_the_calls_or_the_clients(connect: Callable[..., Any], server: Server) -> None:
    server.service.models.clear()
    with connect(server.address, model="mine") as client:
        client.predict("a")
        client.predict("a", model="other")
        client.predict(pb.PredictRequest(text="a", model="third"))
        client.embed(["a"])
    assert server.service.models == ["mine", "other", "third", "mine"]


def test_the_tenant_is_the_items_and_the_clients(connect: Callable[..., Any], server: Server) -> None:
    with connect(server.address, tenant="acme corp", token="a-token") as client:
        client.predict("a")
        assert server.service.tenants == ("acme corp", "", "")
        client.predict("a", tenant="żółć", group="run 7")
        assert server.service.tenants == ("acme corp", "żółć", "run 7")
    with connect(server.address) as client:
        client.predict("a", group="run 7")
        assert server.service.tenants == ("", "", "run 7")
    for tenant in ("żółć", "a\nb", "x" * 257):
        with pytest.raises(ValueError, match="tenant: it must have printable ASCII characters only, at most 256"):
            connect(server.address, tenant=tenant)


def test_classify(client: Any) -> None:
    (one, two) = client.classify([("a", "b"), ("c", "d")], top_labels=1)
    assert [label.name for label in one + two] == ["a|b", "c|d"]
    with pytest.raises(errors.Unimplemented):
        client.classify(["embedded"])
    with pytest.raises(errors.Unimplemented):
        client.embed([("a", "b")])


def test_rerank(client: Any) -> None:
    ranks = client.rerank("rank", ["a", "bbb", "cc", "ddd"])
    assert ranks == [fastqps.Rank(1, 0.375), fastqps.Rank(3, 0.375), fastqps.Rank(2, 0.25), fastqps.Rank(0, 0.125)]
    assert client.rerank("rank", []) == []
    with pytest.raises(errors.Unimplemented, match="does not rank texts: it has more labels than one"):
        client.rerank("another query", ["a"])
    with pytest.raises(errors.InvalidArgument, match=r"^item 1: "):
        client.rerank("rank", ["a", "\ud800"])


def test_models_and_health(client: Any, server: Server) -> None:
    minilm, new = client.models()
    assert (minilm.name, minilm.task, minilm.dimensions, minilm.is_default) == ("minilm", "embed", 384, True)
    assert (new.task, new.labels) == ("9", ["a", "b"])  # a task that this client does not know
    assert client.ready() is True
    server.health.status = health_pb2.HealthCheckResponse.NOT_SERVING
    assert client.ready() is False
    server.health.status = health_pb2.HealthCheckResponse.SERVING


def test_several_channels_are_several_connections(connect: Callable[..., Any], server: Server) -> None:
    for channels in (1, 3):
        server.service.peers.clear()
        with connect(server.address, channels=channels) as client:
            for _ in range(9):
                client.predict("a")
        assert len(server.service.peers) == channels


# ---- errors

LADDER = [
    (1, errors.Cancelled, errors.CallError),
    (3, errors.InvalidArgument, ValueError),
    (4, errors.DeadlineExceeded, TimeoutError),
    (5, errors.NotFound, LookupError),
    (8, errors.ResourceExhausted, errors.CallError),
    (12, errors.Unimplemented, NotImplementedError),
    (13, errors.Internal, RuntimeError),
    (14, errors.Unavailable, ConnectionError),
    (16, errors.Unauthenticated, PermissionError),
    (9, errors.CallError, Exception),
]


@pytest.mark.parametrize(("code", "kind", "builtin"), LADDER)
def test_each_status_is_its_error(
    client: Any, code: int, kind: type[errors.CallError], builtin: type[Exception]
) -> None:
    text = f"fail {code} because of this"
    with pytest.raises(kind) as by_call:
        client.predict(text)
    with pytest.raises(kind) as by_item:
        client.embed(["fine", text])
    for caught, message in ((by_call.value, "because of this"), (by_item.value, "item 1: because of this")):
        assert type(caught) is kind and isinstance(caught, builtin) and isinstance(caught, errors.CallError)
        assert (caught.code, caught.message, str(caught)) == (code, message, message)
        assert caught.retry_after_ms == (70 if code == 8 else 0)
        again = pickle.loads(pickle.dumps(caught))
        assert (type(again), again.code, str(again)) == (kind, code, message)


def test_a_bad_item_fails_alone(client: Any) -> None:
    good, bad, empty = client.predict_batch(["a", "fail 3 text: too long", pb.PredictRequest(request_id=5)])
    np.testing.assert_array_equal(good.embedding, vector("a"))
    assert isinstance(bad, prediction.PredictionError) and isinstance(bad.error, errors.InvalidArgument)
    assert (empty.request_id, str(empty.error)) == (5, "input: none")


def test_a_failed_call_fails_the_batch(client: Any) -> None:
    with pytest.raises(errors.Unavailable, match="draining"):
        client.predict_batch([*("a" for _ in range(2000)), "fail the call"])


def test_time_runs_out(client: Any, server: Server) -> None:
    """Its answer is not waited for: there is none before the client is back."""
    server.service.may_answer.clear()
    try:
        with pytest.raises(TimeoutError):
            client.predict("wait", timeout_s=0.05)
    finally:
        server.service.may_answer.set()


def test_nobody_is_there(connect: Callable[..., Any]) -> None:
    with connect("127.0.0.1:1", timeout_s=PATIENCE_S) as client:
        assert client.ready() is False
        for call in (lambda: client.predict("a"), lambda: client.embed(["a"]), client.models):
            with pytest.raises(errors.Unavailable):
                call()
        with pytest.raises(errors.Unavailable):
            list(client.predict_stream(["a"]))


def test_wrong_options_are_refused_before_anything_is_sent(client: Any) -> None:
    for texts in ("one text", "ab"):
        with pytest.raises(TypeError):
            client.embed(texts)
    with pytest.raises(ValueError, match=r"^priority: 'highest', must be one of low, normal, high$"):
        client.predict("a", priority="highest")
    with pytest.raises(
        ValueError, match=r"^dtype: 'int4', must be one of float32, float16, int8, uint8, binary, ubinary$"
    ):
        client.predict("a", dtype="int4")


# ---- retries


@pytest.fixture
def full() -> Counter[str]:
    refused.clear()
    return refused


def test_by_default_a_refusal_is_not_tried_again(client: Any, full: Counter[str]) -> None:
    with pytest.raises(fastqps.ResourceExhausted, match="the queue is full"):
        client.predict("full 1")
    assert full["full 1"] == 1


def test_a_refused_call_is_tried_again_after_the_hint(
    connect: Callable[..., Any], server: Server, full: Counter[str]
) -> None:
    with connect(server.address, retries=2) as client:
        began = time.monotonic()
        np.testing.assert_array_equal(client.predict("full 2").embedding, vector("full 2"))
        assert full["full 2"] == 2 and time.monotonic() - began >= 0.02 + 2 * 0.02, "the hint is the least wait"
        full.clear()
        with pytest.raises(fastqps.ResourceExhausted):
            client.predict("full 3")
        assert full["full 3"] == 3, "one attempt and two retries"


def test_refused_items_of_a_batch_are_tried_again_alone(
    connect: Callable[..., Any], server: Server, full: Counter[str]
) -> None:
    texts = ["a", "full 1", "b", "full 2", "fail 3 no"]
    server.service.batches.clear()
    with connect(server.address, retries=2) as client:
        *good, bad = client.predict_batch(texts)
    for text, result in zip(texts, good, strict=False):
        np.testing.assert_array_equal(result.embedding, vector(text))
    assert isinstance(bad.error, fastqps.InvalidArgument)
    assert server.service.batches == [5, 2, 1]


def test_retries_end_with_the_calls_time(connect: Callable[..., Any], server: Server, full: Counter[str]) -> None:
    with connect(server.address, retries=1000, timeout_s=1.0) as client:
        began = time.monotonic()
        with pytest.raises((fastqps.ResourceExhausted, fastqps.DeadlineExceeded)):
            client.predict("full 1000")
        assert time.monotonic() - began < PATIENCE_S and 1 < full["full 1000"] < 10
        (result,) = client.predict_batch(["full 999"])
        assert isinstance(result.error, fastqps.ResourceExhausted), "what the server said, not that time ran out"


def test_a_retry_without_an_answer_takes_nobody_elses(
    connect: Callable[..., Any], server: Server, full: Counter[str]
) -> None:
    server.service.batches.clear()
    with connect(server.address, retries=2, timeout_s=LATE_S / 2) as client:
        good, refused_once = client.predict_batch(["a", "full 1 late"])
    assert server.service.batches == [2, 1] and full["full 1 late"] == 1
    np.testing.assert_array_equal(good.embedding, vector("a"))
    assert isinstance(refused_once.error, fastqps.ResourceExhausted), "what the server said, not that time ran out"


def test_what_has_no_hint_is_not_tried_again(connect: Callable[..., Any], server: Server) -> None:
    server.service.models.clear()
    with connect(server.address, retries=5) as client, pytest.raises(fastqps.Unavailable):
        client.predict("fail 14 lost")
    assert len(server.service.models) == 1
    with pytest.raises(ValueError, match="retries: -1"):
        connect(server.address, retries=-1)


# ---- streams


def test_a_stream_is_answered_as_answers_come(client: Any) -> None:
    texts = [f"text {i}" for i in range(2001)]
    seen: list[int] = []
    for result in client.predict_stream(iter(texts)):
        np.testing.assert_array_equal(result.embedding, vector(texts[result.request_id]))
        seen.append(result.request_id)
    assert seen[:4] == [1, 0, 3, 2] and sorted(seen) == list(range(2001))
    assert list(client.predict_stream([])) == []


def test_each_item_of_a_stream_has_its_own_time_and_status(client: Any) -> None:
    results = {r.request_id: r for r in client.predict_stream(["a", "fail 8 full", "b"], timeout_s=0.25)}
    assert results[0].usage.input_tokens == results[2].usage.input_tokens == 250_000
    assert isinstance(results[1].error, errors.ResourceExhausted) and results[1].error.retry_after_ms == 70


def test_a_stream_that_is_left_early_ends(client: Any) -> None:
    """An endless source, of which only as many are taken as may be under way."""
    taken = 0

    def endless() -> Iterator[str]:
        nonlocal taken
        while True:
            taken += 1
            yield "a"

    stream = client.predict_stream(endless())
    for _ in range(10):
        next(stream)
    stream.close()

    def rests() -> bool:
        before = taken
        time.sleep(0.1)
        return taken == before

    until(rests, "an end of what is taken")
    assert 10 <= taken <= rpc.STREAM_IN_FLIGHT_MAX + 20
    assert client.predict("a").embedding is not None


def test_a_stream_that_the_server_breaks_is_an_error(client: Any) -> None:
    with pytest.raises(errors.Unavailable, match=r"draining|ended the stream"):
        list(client.predict_stream(["a", "b", "fail the call", *["c"] * 2000]))
    with pytest.raises(errors.Internal, match="after 2 of"):
        list(client.predict_stream(["a", "b", "c", "hang up"]))


def test_a_stream_takes_an_async_source(server: Server) -> None:
    async def source() -> AsyncIterator[str]:
        for i in range(5):
            await asyncio.sleep(0)
            yield f"text {i}"

    async def main() -> list[int]:
        async with fastqps.AsyncClient(server.address) as client:
            return [result.request_id async for result in client.predict_stream(source())]

    assert sorted(uvloop.run(main())) == [0, 1, 2, 3, 4]


def test_many_tasks_and_many_threads(server: Server) -> None:
    async def tasks() -> None:
        async with fastqps.AsyncClient(server.address) as client:
            texts = [f"task {i}" for i in range(200)]
            results = await asyncio.gather(*(client.predict(text) for text in texts))
            for text, result in zip(texts, results, strict=True):
                np.testing.assert_array_equal(result.embedding, vector(text))

    uvloop.run(tasks())
    with fastqps.Client(server.address, channels=2) as client, futures.ThreadPoolExecutor(8) as pool:
        texts = [f"thread {i}" for i in range(200)]
        for text, result in zip(texts, pool.map(client.predict, texts), strict=True):
            np.testing.assert_array_equal(result.embedding, vector(text))


def test_no_thread_is_left() -> None:
    def left() -> list[str]:
        return [t.name for t in threading.enumerate() if "_consume" in t.name or "predict" in t.name]

    until(lambda: not left(), "no thread of a stream's")


def test_importing_fastqps_loads_neither_grpc_nor_torch() -> None:
    heavy = {"grpc", "torch", "numpy", "google.protobuf"}
    code = f"import sys, fastqps; print(fastqps.__version__, {heavy} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert out.stdout.strip() == f"{fastqps.__version__} set()"
    for name in fastqps.__all__:
        assert getattr(fastqps, name) is not None
    kinds = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}
    assert kinds | {"DeviceError", "ModelError"} <= set(fastqps.__all__), "whoever catches an error names it so"
    with pytest.raises(AttributeError, match="no attribute 'Nope'"):
        fastqps.Nope  # noqa: B018
