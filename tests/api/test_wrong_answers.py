"""Both clients against servers that answer too little, too much, nonsense, or nothing: each is a CallError."""

import asyncio
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from google.protobuf.message import DecodeError
from grpc_server import grpc_server, of_bytes
from serving import PATIENCE_S

import fastqps
from fastqps import errors
from fastqps.api.prediction import PredictionError, read_batch, read_chunk, read_prediction
from fastqps.api.request import Requests
from fastqps.api.served_model import read_models
from fastqps.client import stream
from fastqps.v1 import predict_pb2 as pb

Responses = list[pb.PredictResponse]


def embedding(request_id: int = 0, *values: float) -> pb.PredictResponse:
    return pb.PredictResponse(request_id=request_id, embedding=pb.Embedding(values=values or [1.0]))


class Liar:
    """A server whose answers each test sets, as bytes. By default they are right."""

    def __init__(self) -> None:
        self.one: Callable[[pb.PredictRequest], bytes] = lambda item: embedding(item.request_id).SerializeToString()
        self.change: Callable[[Responses], Responses] = lambda responses: responses
        self.models = b""
        self.chunks: list[bytes] = []
        self.over = threading.Event()
        self.address = ""

    def methods(self) -> dict[str, Any]:
        whole, stream_ = grpc.unary_unary_rpc_method_handler, grpc.stream_stream_rpc_method_handler
        return {
            "Predict": whole(lambda data, _: self.one(pb.PredictRequest.FromString(data))),
            "PredictBatch": whole(self._batch),
            "PredictStream": stream_(self._stream),
            "Generate": grpc.unary_stream_rpc_method_handler(lambda _data, _: iter(self.chunks)),
            "ListModels": whole(lambda _data, _: self.models),
        }

    def _batch(self, data: bytes, _context: Any) -> bytes:
        items = pb.PredictBatchRequest.FromString(data).items
        answers = self.change([pb.PredictResponse.FromString(self.one(item)) for item in items])
        return pb.PredictBatchResponse(items=answers).SerializeToString()

    def _stream(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        context.add_callback(self.over.set)
        for data in requests:
            item = pb.PredictRequest.FromString(data)
            if item.text == "stick":
                self.over.wait(PATIENCE_S)
            answer = pb.PredictResponse.FromString(self.one(item))
            for changed in self.change([answer]):
                yield changed.SerializeToString()


@pytest.fixture
def liar() -> Iterator[Liar]:
    liar = Liar()
    with grpc_server(of_bytes("fastqps.v1.PredictService", liar.methods())) as liar.address:
        yield liar
        liar.over.set()


@pytest.fixture
def client(connect: Callable[..., Any], liar: Liar) -> Iterator[Any]:
    with connect(liar.address, retries=1, timeout_s=PATIENCE_S) as client:
        yield client


def twice(item: pb.PredictResponse) -> Responses:
    return [item, item]


def renamed(item: pb.PredictResponse, request_id: int) -> pb.PredictResponse:
    return pb.PredictResponse.FromString(
        item.SerializeToString() + pb.PredictResponse(request_id=request_id).SerializeToString()
    )


WRONG_BATCHES: dict[str, Callable[[Responses], Responses]] = {
    "none": lambda items: [],
    "one too few": lambda items: items[1:],
    "one too many": lambda items: items + items[:1],
    "the last ones swapped": lambda items: [*items[:-2], items[-1], items[-2]],
    "one twice, one never": lambda items: [items[0], *items[:-1]],
}


@pytest.mark.parametrize("name", WRONG_BATCHES)
def test_the_answers_of_a_batch_are_counted_and_matched(client: Any, liar: Liar, name: str) -> None:
    texts = [str(i) for i in range(300)]  # two calls
    assert len(client.embed(texts)) == 300
    liar.change = WRONG_BATCHES[name]
    for call in (client.embed, client.predict_batch):
        with pytest.raises(errors.Internal, match=r"answers to \d+ items|answered request_id"):
            call(texts)


def test_callers_get_their_own_ids_back(client: Any) -> None:
    messages = [pb.PredictRequest(text="a", request_id=i) for i in (7, 7, 2**64 - 1, 0)]
    assert [found.request_id for found in client.predict_batch(messages)] == [7, 7, 2**64 - 1, 0]
    assert [message.request_id for message in messages] == [7, 7, 2**64 - 1, 0], "the caller's messages were changed"


def test_the_answers_of_a_stream_are_matched(client: Any, liar: Liar) -> None:
    liar.change = lambda items: twice(items[0])
    with pytest.raises(errors.Internal, match="request_id 0, which is not open"):
        list(client.predict_stream(["a", "b"]))
    liar.change = lambda items: [embedding(9)]
    with pytest.raises(errors.Internal, match="request_id 9, which is not open"):
        list(client.predict_stream(["a", "b"]))
    liar.change = lambda items: []
    with pytest.raises(errors.Internal, match="after 0 of 2 answers"):
        list(client.predict_stream(["a", "b"]))


def test_the_answer_of_one_call_is_matched(client: Any, liar: Liar) -> None:
    liar.one = lambda item: embedding(item.request_id + 1).SerializeToString()
    with pytest.raises(errors.Internal, match="request_id 6 where 5 was asked"):
        client.predict(pb.PredictRequest(text="a", request_id=5))


NO_ANSWERS = {
    "no output": pb.PredictResponse(),
    "half a float16": pb.PredictResponse(embedding=pb.Embedding(raw=b"abc", dtype=pb.DTYPE_FLOAT16)),
    "bytes for floats": pb.PredictResponse(embedding=pb.Embedding(raw=b"abcd")),
    "floats for bytes": pb.PredictResponse(embedding=pb.Embedding(values=[1.0], dtype=pb.DTYPE_INT8)),
    "an unknown dtype": pb.PredictResponse(embedding=pb.Embedding(raw=b"ab", dtype=9)),
    "half a float16 of a token": pb.PredictResponse(multi=pb.MultiVector(raw=b"a", dtype=2, dimensions=1)),
    "no vectors": pb.PredictResponse(multi=pb.MultiVector(values=[1.0, 2.0, 3.0], dimensions=2)),
    "unequal weights": pb.PredictResponse(sparse=pb.SparseEmbedding(ids=[1, 2], weights=[0.5])),
    "no end": pb.PredictResponse(generation=pb.Generation(text="a")),
    "unequal logprobs": pb.PredictResponse(generation=pb.Generation(token_ids=[1], logprobs=[0, 0], finish_reason=1)),
    "half a likeliest token": pb.PredictResponse(
        generation=pb.Generation(
            token_ids=[1, 2], top_logprobs=pb.TopLogprobs(token_ids=[1, 2, 3], logprobs=[0, 0, 0]), finish_reason=1
        )
    ),
    "unequal likeliest tokens": pb.PredictResponse(
        generation=pb.Generation(token_ids=[1], top_logprobs=pb.TopLogprobs(token_ids=[1]), finish_reason=1)
    ),
    "a status of no kind": pb.PredictResponse(status=pb.Status(code=17, message="what")),
    "a negative status": pb.PredictResponse(status=pb.Status(code=-1, message="what")),
}


@pytest.mark.parametrize("name", NO_ANSWERS)
def test_an_answer_that_makes_no_sense_is_an_error(client: Any, liar: Liar, name: str) -> None:
    liar.one = lambda item: renamed(NO_ANSWERS[name], item.request_id).SerializeToString()
    calls = (
        lambda: [client.predict("a")],
        lambda: client.predict_batch(["a"]),
        lambda: [*client.predict_stream(["a"])],
    )
    for call in calls:
        with pytest.raises(errors.Internal):
            (found,) = call()
            assert isinstance(found, PredictionError)
            raise found.error


def test_embeddings_and_labels_of_one_call_fit_together(client: Any, liar: Liar) -> None:
    liar.one = lambda item: embedding(item.request_id, *[1.0] * len(item.text)).SerializeToString()
    with pytest.raises(errors.Internal, match=r"different lengths: \[1, 2\]"):
        client.embed(["a", "bb"])

    def labels(item: pb.PredictRequest) -> bytes:
        names = ["entailment", "neutral", "contradiction"][: 2 + len(item.pair.second) % 2]
        found = [pb.Label(name=name, index=i) for i, name in enumerate(names)]
        made = pb.Classification(labels=found)
        return pb.PredictResponse(request_id=item.request_id, classification=made).SerializeToString()

    liar.one = labels
    with pytest.raises(errors.Internal, match="different labels"):
        client.zero_shot(["a"], ["x", "yy"])


def test_chunks_belong_to_one_text_and_end_once(client: Any, liar: Liar) -> None:
    piece, last = pb.GenerateChunk(text="a", token_ids=[5]), pb.GenerateChunk(finish_reason=pb.FINISH_REASON_STOP)
    for chunks in (
        [piece, last, piece],
        [piece, last, last],
        [piece],
        [pb.GenerateChunk(request_id=3), last],
        [pb.GenerateChunk(token_ids=[5, 6], logprobs=[-1.0]), last],
    ):
        liar.chunks = [chunk.SerializeToString() for chunk in chunks]
        with pytest.raises(errors.Internal):
            list(client.generate_stream("a"))
    liar.chunks = [piece.SerializeToString(), last.SerializeToString()]
    assert [chunk.text for chunk in client.generate_stream("a")] == ["a", ""]


def test_what_is_no_message_is_an_error(client: Any, liar: Liar) -> None:
    liar.models, liar.chunks = b"\xff", [b"\xff"]
    for call in (client.models, lambda: list(client.generate_stream("a"))):
        with pytest.raises(errors.Internal, match="cannot be read"):
            call()


def test_damaged_bytes_are_read_or_refused() -> None:
    """Thousands of damaged answers: no reader raises anything else, or takes long."""
    rng = random.Random(38)
    whole = [message.SerializeToString() for message in (*list(NO_ANSWERS.values())[1:], embedding(300, *range(40)))]
    whole += [pb.PredictBatchResponse(items=[embedding(1), embedding(2)]).SerializeToString(), b"\x80" * 100_000]
    whole.append(b"\x0a" + b"\xff" * 100_000)
    for data in whole:
        for _ in range(40):
            damaged = bytearray(data)
            for _ in range(rng.randrange(4)):
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
            cut = bytes(damaged[: rng.randrange(len(damaged) + 1)] if rng.random() < 0.5 else damaged)
            for read in (read_prediction, read_batch, read_chunk, read_models):
                try:
                    read(cut)
                except (DecodeError, errors.CallError):
                    continue


# ---- silence


def test_a_silent_server_ends_a_stream(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "SILENCE_S", 0.05)
    with pytest.raises(errors.DeadlineExceeded, match=r"answered nothing for 0\.15 s, with \d+ items open"):
        list(client.predict_stream(["a", "stick", "b"], timeout_s=0.1))


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


def test_only_open_items_of_a_caller_that_waits_make_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(stream, "time", clock)
    limit_s, answer = 2.0 + stream.SILENCE_S, embedding(0).SerializeToString()
    items, requests = stream.Stream(2.0), Requests({}, 2.0)
    items.await_answer()
    clock.now_s += 50
    assert items.look_in_s() == limit_s, "nothing was sent"
    items.send(requests, "a")
    clock.now_s += 1
    assert items.look_in_s() == limit_s - 1
    items.send(requests, pb.PredictRequest(text="b", timeout_us=4_000_000))
    assert items.look_in_s() == limit_s + 1, "an item's own time"
    items.take(answer)
    clock.now_s += 50
    assert items.look_in_s() == limit_s + 2, "the caller has paused"
    items.await_answer()
    clock.now_s += limit_s + 2
    assert items.look_in_s() == stream.SECOND_LOOK_S and not items.silent, "perhaps the program stood still"
    assert items.look_in_s() == 0 and items.silent
    assert "for 5 s, with 1 items open" in str(items.silence())


# ---- the caller's items


class StopError(BaseException):
    pass


@pytest.mark.parametrize(
    "kind",
    [OSError, ValueError, grpc.RpcError, asyncio.InvalidStateError, asyncio.CancelledError, KeyboardInterrupt,
     SystemExit, GeneratorExit, StopError, errors.Cancelled],
)  # fmt: skip
def test_items_that_raise_end_the_stream_with_that_error(client: Any, kind: type[BaseException]) -> None:
    class Source:
        """A generator would keep its GeneratorExit for itself."""

        def __init__(self) -> None:
            self.left = ["a", "b"]

        def __iter__(self) -> "Source":
            return self

        def __next__(self) -> str:
            if self.left:
                return self.left.pop()
            raise kind("no more")

    stream = client.predict_stream(Source())
    assert [next(stream).request_id, next(stream).request_id] == [0, 1], "what was sent is answered first"
    with pytest.raises(kind, match="no more"):
        next(stream)


def test_items_of_an_async_source_that_raise_end_the_stream(liar: Liar) -> None:
    async def failing(kind: type[BaseException]) -> Any:
        yield "a"
        raise kind("no more")

    async def main(kind: type[BaseException]) -> None:
        async with fastqps.AsyncClient(liar.address) as client:
            async for found in client.predict_stream(failing(kind)):
                assert found.request_id == 0

    for kind in (OSError, grpc.RpcError, asyncio.CancelledError, StopError):
        with pytest.raises(kind, match="no more"):
            asyncio.run(main(kind))


def test_a_source_that_cannot_be_iterated_is_said_at_once(client: Any) -> None:
    with pytest.raises(TypeError, match="iterable"):
        next(client.predict_stream(5))


# ---- items that cannot be sent

BAD_ITEMS: list[tuple[Any, str]] = [
    ("\ud800", "surrogates"),
    (("a", "\ud800"), "surrogates"),
    (3, "this int is none"),
    (None, "this NoneType is none"),
    (b"bytes", "decode it first"),
    (("a", 5), "bad argument type"),
    (("a", "b", "c"), "this tuple is none"),
    (["a"], "this list is none"),
    ([-1], "Value out of range"),
    ([1.5], "this list is none"),
    ([{"role": "user", "content": "a"}], "a Chat of messages; this list is none"),
]


@pytest.mark.parametrize(("bad", "said"), BAD_ITEMS, ids=[repr(bad) for bad, _ in BAD_ITEMS])
def test_an_item_that_cannot_be_sent_fails_alone(client: Any, bad: Any, said: str) -> None:
    batch = client.predict_batch(["a", bad, "b", pb.PredictRequest(text="c", request_id=7)])
    streamed = sorted(client.predict_stream(["a", bad, "b", "c"]), key=lambda found: found.request_id)
    for results, ids in ((batch, [0, 1, 0, 7]), (streamed, [0, 1, 2, 3])):
        assert [found.request_id for found in results] == ids
        assert [isinstance(found, PredictionError) for found in results] == [False, True, False, False]
        assert isinstance(results[1].error, errors.InvalidArgument) and said in str(results[1].error)
    with pytest.raises(errors.InvalidArgument, match=f"^item 1: .*{said}"):
        client.embed(["a", bad])
    with pytest.raises(errors.InvalidArgument, match=said):
        client.predict(bad)


def test_a_stream_of_nothing_but_bad_items_goes_on(client: Any) -> None:
    """More of them than may be under way."""
    found = list(client.predict_stream(["\ud800"] * 600))
    assert sorted(each.request_id for each in found) == [*range(600)]
    assert all(isinstance(each, PredictionError) for each in found)
