"""tei.v1, the gRPC API of text-embeddings-inference: every answer against this server's own ``Predict``."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf.message import DecodeError
from serving import PATIENCE_S, Server

from fastqps.api.reflection import message_class
from fastqps.v1 import predict_pb2 as pb
from fastqps.v1 import predict_pb2_grpc

TEXTS = ["A man is eating food.", "Zürich, 東京", "word " * 40, "x"]
INVALID, PRECONDITION = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION
# method: (service, request, response)
METHODS = {
    "Info": ("Info", "Info", "Info"),
    "Embed": ("Embed", "Embed", "Embed"),
    "EmbedStream": ("Embed", "Embed", "Embed"),
    "EmbedSparse": ("Embed", "EmbedSparse", "EmbedSparse"),
    "EmbedAll": ("Embed", "EmbedAll", "EmbedAll"),
    "Predict": ("Predict", "Predict", "Predict"),
    "PredictPair": ("Predict", "PredictPair", "Predict"),
    "PredictStream": ("Predict", "Predict", "Predict"),
    "PredictPairStream": ("Predict", "PredictPair", "Predict"),
    "Rerank": ("Rerank", "Rerank", "Rerank"),
    "RerankStream": ("Rerank", "RerankStream", "Rerank"),
    "Tokenize": ("Tokenize", "Encode", "Encode"),
    "TokenizeStream": ("Tokenize", "Encode", "Encode"),
    "Decode": ("Tokenize", "Decode", "Decode"),
}


class Api:
    """Calls of one server, by the names of the methods."""

    def __init__(self, server: Server, channel: grpc.Channel) -> None:
        self.server, self.channel = server, channel
        self.stub = predict_pb2_grpc.PredictServiceStub(channel)

    def __call__(self, method: str, *fields: dict[str, Any], **one: Any) -> Any:
        """One answer, or for a stream of requests all of them; a stream has a dict for each message."""
        service, request, response = METHODS[method]
        request_type = message_class(f"tei.v1.{request}Request")
        response_type = message_class(f"tei.v1.{response}Response")
        open_call = (
            self.channel.unary_unary if not method.endswith("Stream") else
            self.channel.stream_unary if method == "RerankStream" else self.channel.stream_stream
        )  # fmt: skip
        call = open_call(f"/tei.v1.{service}/{method}", request_type.SerializeToString, lambda data: data)

        def parsed(data: bytes) -> Any:
            found = response_type.FromString(data)
            # What protobuf writes: no unknown, misplaced or superfluous field.
            assert found.SerializeToString(deterministic=True) == data
            return found

        if not method.endswith("Stream"):
            return parsed(call(request_type(**one), timeout=PATIENCE_S))
        answer = call(iter([request_type(**each) for each in fields]), timeout=PATIENCE_S)
        return parsed(answer) if method == "RerankStream" else [parsed(data) for data in answer]

    def predict(self, **fields: Any) -> Any:
        return self.stub.Predict(pb.PredictRequest(**fields), timeout=PATIENCE_S)

    def labels(self, **fields: Any) -> list[tuple[str, float]]:
        return [(each.name, each.score) for each in self.predict(**fields).classification.labels]

    def embedding(self, text: str, truncate: bool = False, **options: Any) -> np.ndarray:
        request = {"text": text, "truncate": truncate, "output": pb.OutputOptions(**options)}
        return np.array(self.predict(**request).embedding.values, np.float32)


@contextmanager
def calling(server: Server) -> Iterator[Api]:
    with grpc.insecure_channel(server.address) as channel:
        yield Api(server, channel)
    server.until_idle()


@pytest.fixture(scope="module")
def embedder(only_minilm: Server) -> Iterator[Api]:
    with calling(only_minilm) as api:
        yield api


@pytest.fixture(scope="module")
def classifier(only_labelled: Server) -> Iterator[Api]:
    with calling(only_labelled) as api:
        yield api


@pytest.fixture(scope="module")
def ranker(only_ranker: Server) -> Iterator[Api]:
    with calling(only_ranker) as api:
        yield api


@pytest.mark.parametrize("normalize", [None, True, False])
@pytest.mark.parametrize("dimensions", [None, 64])
def test_embeddings(embedder: Api, normalize: bool | None, dimensions: int | None) -> None:
    for text in TEXTS:
        found = embedder("Embed", inputs=text, normalize=normalize, dimensions=dimensions)
        expected = embedder.embedding(text, normalize=normalize is not False, dimensions=dimensions or 0)
        assert np.array_equal(np.array(found.embeddings, np.float32), expected)


def test_metadata(embedder: Api) -> None:
    for text in TEXTS:
        found = embedder("Embed", inputs=text).metadata
        assert found.compute_chars == len(text)
        assert found.compute_tokens == embedder.predict(text=text).usage.input_tokens
        parts = found.tokenization_time_ns + found.queue_time_ns + found.inference_time_ns
        assert 0 < found.inference_time_ns <= parts <= found.total_time_ns


def test_truncation(embedder: Api) -> None:
    long = "b " * 300
    found = embedder("Embed", inputs=long, truncate=True)
    assert np.array_equal(np.array(found.embeddings, np.float32), embedder.embedding(long, truncate=True))
    assert found.metadata.compute_tokens == 256


def test_a_stream_of_embeddings_keeps_its_order(embedder: Api) -> None:
    texts = [f"{'word ' * (i % 60)}number {i}" for i in range(120)]
    found = embedder("EmbedStream", *[{"inputs": text} for text in texts])
    assert len(found) == len(texts)
    for answer, text in zip(found[::17], texts[::17], strict=True):
        assert np.abs(np.array(answer.embeddings) - embedder.embedding(text)).max() <= 1e-5
        assert answer.metadata.compute_chars == len(text)


def predictions(answer: Any) -> list[tuple[str, float]]:
    return [(each.label, each.score) for each in answer.predictions]


@pytest.mark.parametrize("raw", [False, True])
def test_predictions(classifier: Api, raw: bool) -> None:
    expected = [classifier.labels(text=text, output={"raw_scores": raw}) for text in TEXTS]
    assert all(len(each) == 3 for each in expected)
    assert [predictions(classifier("Predict", inputs=text, raw_scores=raw)) for text in TEXTS] == expected
    streamed = classifier("PredictStream", *[{"inputs": text, "raw_scores": raw} for text in TEXTS])
    for found, wanted in zip(streamed, expected, strict=True):
        assert [name for name, _ in predictions(found)] == [name for name, _ in wanted]
        assert [score for _, score in predictions(found)] == pytest.approx([score for _, score in wanted], abs=1e-5)


def test_predictions_of_pairs(classifier: Api) -> None:
    expected = classifier.labels(pair={"first": "a b", "second": "c d"})
    answer = classifier("PredictPair", inputs=["a b", "c d"])
    assert predictions(answer) == expected and answer.metadata.compute_chars == 6
    assert predictions(classifier("PredictPair", inputs=["a b"])) == classifier.labels(text="a b")
    streamed = classifier("PredictPairStream", {"inputs": ["a b", "c d"]}, {"inputs": ["x"]})
    assert [len(each.predictions) for each in streamed] == [3, 3]


def sigmoid(x: float) -> float:
    return float(1 / (1 + np.exp(-np.float32(x))))


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("return_text", [False, True])
@pytest.mark.parametrize("method", ["Rerank", "RerankStream"])
def test_ranks(ranker: Api, method: str, raw: bool, return_text: bool) -> None:
    query, texts = "what is food?", [*TEXTS, "", "A man is eating food."]
    options = {"raw_scores": raw, "return_text": return_text}
    if method == "Rerank":
        answer = ranker(method, query=query, texts=texts, **options)
    else:  # only the first message's options count
        others = [
            {"query": query, "text": text, "raw_scores": not raw, "return_text": not return_text} for text in texts
        ]
        answer = ranker(method, {"query": query, "text": texts[0], **options}, *others[1:])
    logits = [ranker.labels(pair={"first": query, "second": t}, output={"raw_scores": True})[0][1] for t in texts]
    expected = logits if raw else [sigmoid(logit) for logit in logits]
    scores = [rank.score for rank in answer.ranks]
    assert scores == sorted(scores, reverse=True)
    assert sorted(rank.index for rank in answer.ranks) == list(range(len(texts)))
    for rank in answer.ranks:
        assert rank.score == pytest.approx(expected[rank.index], abs=1e-5)
        assert rank.HasField("text") == return_text and (not return_text or rank.text == texts[rank.index])
    assert answer.metadata.compute_chars == sum(len(query) + len(text) for text in texts)
    assert 0 < answer.metadata.inference_time_ns <= answer.metadata.total_time_ns


def test_single_scores_are_probabilities(ranker: Api) -> None:
    logit = ranker.labels(pair={"first": "a", "second": "b"}, output={"raw_scores": True})[0][1]
    answer = ranker("PredictPair", inputs=["a", "b"])
    assert answer.predictions[0].score == pytest.approx(sigmoid(logit), abs=1e-6)
    assert ranker("PredictPair", inputs=["a", "b"], raw_scores=True).predictions[0].score == logit


REFUSED: dict[str, tuple[str, str, dict[str, Any], Any, str]] = {
    "empty": ("embedder", "Embed", {}, INVALID, "inputs: 0 characters, at least 1"),
    "long": ("embedder", "Embed", {"inputs": "b " * 300}, INVALID, "inputs: 302 tokens, at most 256"),
    "prompt": ("embedder", "Embed", {"inputs": "a", "prompt_name": "q"}, INVALID, "prompt_name: 'q' is no prompt"),
    "dimensions": ("embedder", "Embed", {"inputs": "a", "dimensions": 385}, INVALID, "dimensions: 385, at most 384"),
    "no dimensions": ("embedder", "Embed", {"inputs": "a", "dimensions": 0}, INVALID, "dimensions: is 0, must be"),
    "left": ("embedder", "Embed", {"inputs": "a", "truncate": True, "truncation_direction": 1}, INVALID,
             "truncation_direction: left, but the model 'minilm' cuts on the right"),
    "side": ("embedder", "Embed", {"inputs": "a", "truncation_direction": 2}, INVALID, "truncation_direction: 2, must"),
    "no classes": ("embedder", "Predict", {"inputs": "a"}, PRECONDITION, "'minilm' is not a classifier model"),
    "no scores": ("embedder", "Rerank", {"query": "a", "texts": ["b"]}, PRECONDITION, "is not a classifier model"),
    "no vectors": ("classifier", "Embed", {"inputs": "a"}, PRECONDITION, "is not an embedding model"),
    "no ranks": ("classifier", "Rerank", {"query": "a", "texts": ["b"]}, PRECONDITION, "is not a re-ranker model"),
    "three": ("classifier", "PredictPair", {"inputs": ["a"] * 3}, INVALID, "inputs: 3 texts, must be 1 or 2"),
    "none": ("classifier", "PredictPair", {}, INVALID, "inputs: 0 texts, must be 1 or 2"),
    "no text": ("classifier", "Predict", {}, INVALID, "inputs: 0 characters, at least 1"),
    "no texts": ("ranker", "Rerank", {"query": "a"}, INVALID, "texts: 0 texts, at least 1"),
    "many texts": ("ranker", "Rerank", {"query": "a", "texts": ["b"] * 2049}, INVALID, "texts: 2049 texts, at most 20"),
    "long text": ("ranker", "Rerank", {"query": "a", "texts": ["b", "b " * 300]}, INVALID, "texts: 30"),
    "sparse": ("embedder", "EmbedSparse", {"inputs": "a"}, PRECONDITION, "the model 'minilm' has no sparse embeddings"),
    "all": ("embedder", "EmbedAll", {"inputs": "a"}, grpc.StatusCode.UNIMPLEMENTED, "EmbedAll is not served here"),
    "no characters": ("embedder", "Tokenize", {}, INVALID, "inputs: 0 characters, must have 1 to 64000"),
    "no ids": ("embedder", "Decode", {}, INVALID, "ids: 0 ids, at least 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(request: pytest.FixtureRequest, name: str) -> None:
    fixture, method, fields, code, message = REFUSED[name]
    with pytest.raises(grpc.RpcError) as refused:
        request.getfixturevalue(fixture)(method, **fields)
    assert (refused.value.code(), message in refused.value.details()) == (code, True), refused.value.details()


def test_damaged_messages_are_read_as_protobuf_reads_them(embedder: Api) -> None:
    """One byte is replaced, taken out or put in: either both refuse the message, or the answer is that of what protobuf
    reads."""
    request_type, response_type = message_class("tei.v1.EmbedRequest"), message_class("tei.v1.EmbedResponse")
    call = embedder.channel.unary_unary("/tei.v1.Embed/Embed")
    whole = request_type(inputs="Zürich", truncate=True, normalize=False, dimensions=3).SerializeToString()
    draw, outcomes = random.Random(1), dict[str, int]()
    for _ in range(200):
        at, new = draw.randrange(len(whole)), draw.choice([b"", bytes([draw.randrange(256)]), b"\x08\x01"])
        data = whole[:at] + new + whole[at + draw.randrange(2) :]
        try:
            read: Any = request_type.FromString(data)
        except DecodeError:
            read = None
        try:
            answer: Any = response_type.FromString(call(data, timeout=PATIENCE_S))
        except grpc.RpcError as refused:
            assert refused.code() == INVALID
            damaged = any(word in refused.details() for word in ("not valid protobuf", "not valid UTF-8"))
            assert damaged == (read is None), (data, refused.details())
            outcome = "damaged" if damaged else "wrong"
        else:
            expected = embedder.embedding(read.inputs, read.truncate, normalize=not read.HasField("normalize")
                                          or read.normalize, dimensions=read.dimensions)  # fmt: skip
            assert np.array_equal(np.array(answer.embeddings, np.float32), expected), data
            outcome = "answered"
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    assert len(outcomes) == 3, outcomes


def test_a_stream_ends_with_its_first_failure(embedder: Api) -> None:
    """Behind the answers to the requests before."""
    service = message_class("tei.v1.EmbedRequest")
    call = embedder.channel.stream_stream("/tei.v1.Embed/EmbedStream", service.SerializeToString, lambda data: data)
    texts = ["a", "b", "", "c", ""]
    answers = call(iter([service(inputs=text) for text in texts]), timeout=PATIENCE_S)
    found: list[bytes] = []
    with pytest.raises(grpc.RpcError) as refused:
        found.extend(answers)
    assert len(found) == 2 and refused.value.code() == INVALID
    assert refused.value.details() == "inputs: 0 characters, at least 1"


def test_empty_streams(embedder: Api, ranker: Api) -> None:
    assert embedder("EmbedStream") == []
    with pytest.raises(grpc.RpcError) as refused:
        ranker("RerankStream")
    assert refused.value.code() == INVALID and "the stream has no messages" in refused.value.details()


def test_a_stream_to_rank_has_a_limit(ranker: Api) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        ranker("RerankStream", *[{"query": "a", "text": "b"}] * 2049)
    assert refused.value.code() == INVALID and "more than 2048 items" in refused.value.details()


@pytest.mark.parametrize(("fixture", "number"), [("embedder", 0), ("classifier", 1), ("ranker", 2)])
def test_info(request: pytest.FixtureRequest, fixture: str, number: int) -> None:
    api = request.getfixturevalue(fixture)
    model = api.stub.ListModels(pb.ListModelsRequest(), timeout=PATIENCE_S).models[0]
    info = api("Info")
    assert (info.model_id, info.model_sha, info.model_type) == (model.name, model.version, number)
    assert (info.model_dtype, info.max_input_length) == ("float32", model.input_tokens_max)
    assert info.max_client_batch_size == 2048 and info.max_batch_requests > 0
    assert info.max_batch_tokens >= info.max_input_length and info.tokenization_workers == 1


def test_tokens(embedder: Api) -> None:
    text = "Zürich eats food."
    tokens = embedder("Tokenize", inputs=text, add_special_tokens=True).tokens
    assert [(t.text, t.special, t.HasField("start")) for t in (tokens[0], tokens[-1])] == [
        ("[CLS]", True, False),
        ("[SEP]", True, False),
    ]
    found = [(t.text, t.start, t.stop) for t in tokens[1:-1]]
    encoded = text.encode()
    assert all(encoded[start:stop].decode() == part for part, start, stop in found)
    assert [part for part, _, _ in found] == ["Zürich", "eats", "food", "."]
    plain = embedder("Tokenize", inputs=text).tokens
    assert list(plain) == list(tokens)[1:-1]
    ids = [t.id for t in tokens]
    assert embedder("Decode", ids=ids, skip_special_tokens=True).text == "zurich eats food."
    assert embedder("Decode", ids=ids).text == "[CLS] zurich eats food. [SEP]"
    assert [len(each.tokens) for each in embedder("TokenizeStream", {"inputs": "a b"}, {"inputs": "a"})] == [2, 1]


def test_calls_are_counted(embedder: Api, ranker: Api) -> None:
    embedder("Embed", inputs="a")
    assert embedder.server.metrics()["fastqps_requests_total{OK,tei.Embed,minilm}"] >= 1
    ranker("Rerank", query="a", texts=["b"])
    assert any("tei.Rerank" in name for name in ranker.server.metrics())
