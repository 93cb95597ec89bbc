"""Answers through an edge are the server's own, byte for byte: every kind of model, option, method and protocol."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
import static_models
from generators import write_generator
from multi_vectors import EXPANDED, QUERY_TOKENS, write_multi
from posting import Poster
from serving import PATIENCE_S, Server, until
from sparse_encoders import write_sparse_encoder
from token_classifiers import texts, write_token_classifier
from tokenized_classifiers import IDENTITY, classifier_at
from upstream_state import start_edge

from fastqps.v1 import predict_pb2 as pb
from fastqps.v1 import predict_pb2_grpc

LONG = 1000  # tokens that a document may have: ten times as many as a slot has room for
TEXTS = ["", "A man is eating food.", "Zürich, 東京 und \N{SLIGHTLY SMILING FACE}", *texts(5)]
LONG_TEXT = "a word in a long, long text. " * 2000
# One item a step, so that no rounding depends on its company.
SERVER = (
    "--frontdoors=1",
    "--device=cpu",
    "--dtype=float32",
    "--max-batch-items=1",
    "--max-running=1",
    "--dispatchers=1",
)
LIMITS = ("--max-output-tokens=32",)


class Pair:
    """A server, and an edge in front of it."""

    def __init__(self, server: Server, edge: Server) -> None:
        self.servers = (server, edge)
        self.channels = [grpc.insecure_channel(each.address) for each in self.servers]
        self.stubs = [predict_pb2_grpc.PredictServiceStub(channel) for channel in self.channels]
        self.posters = [Poster(each) for each in self.servers]

    def close(self) -> None:
        for each in (*self.channels, *self.posters):
            each.close()


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    path = tmp_path_factory.mktemp("models")
    folders = {each: path / each for each in ("labels", "rank", "entities", "sparse", "multi", "static", "generator")}
    for each in ("labels", "rank"):
        folders[each].mkdir()
    classifier_at(folders["labels"], 5)
    classifier_at(folders["rank"], 1, **IDENTITY)
    write_token_classifier(folders["entities"], "bert")
    write_sparse_encoder(folders["sparse"], "bert")
    folders["multi"] = Path(
        write_multi(folders["multi"], "bert", tokens=LONG, query_length=QUERY_TOKENS, query_expansion=EXPANDED)
    )
    static_models.model2vec(folders["static"])
    write_generator(folders["generator"])
    return {"minilm": "minilm", **{name: str(folder) for name, folder in folders.items()}}


@pytest.fixture(scope="module")
def pair(module_server: Callable[..., Server], models: dict[str, str]) -> Iterator[Pair]:
    given = [f"--model={folder if name == 'minilm' else f'{name}={folder}'}" for name, folder in models.items()]
    server = module_server("--frontdoors=1", *given, *SERVER, *LIMITS)
    edge = start_edge(module_server, [server.address], *given, *LIMITS)
    until(lambda: edge.log().count(": serving") >= len(models), lambda: f"all models serve\n{edge.log()}")
    found = Pair(server, edge)
    yield found
    found.close()


def ask(model: str, request_id: int = 7, **fields: Any) -> pb.PredictRequest:
    return pb.PredictRequest(model=model, request_id=request_id, **{"truncate": True, **fields})


def both(model: str, *forms: dict[str, Any], inputs: Sequence[dict[str, Any]] = ()) -> list[pb.PredictRequest]:
    """Every input in every form."""
    given = inputs or [{"text": text} for text in (*TEXTS, LONG_TEXT)]
    asked = [{**each, **form} for form in forms for each in given]
    return [ask(model, i, **fields) for i, fields in enumerate(asked)]


def outputs(*options: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"output": each} for each in options]


PAIRS = [{"pair": {"first": a, "second": b}} for a, b in zip(TEXTS, [*TEXTS[1:], LONG_TEXT], strict=True)]
IDS = [{"token_ids": {"ids": ids}} for ids in ([2, 5, 6, 7], [9], list(range(4, 40)))]
PUNCTUATION = {"token_ids": {"ids": [67, 69, 70]}}  # whose vectors a document leaves out
HALF, BYTES = {"dtype": pb.DTYPE_FLOAT16}, {"dtype": pb.DTYPE_INT8}
SMALL = [{"dtype": dtype} for dtype in (pb.DTYPE_UINT8, pb.DTYPE_BINARY, pb.DTYPE_UBINARY)]
RAW: dict[str, Any] = {"normalize": False}
ENCODED = {
    "minilm": [
        *both("minilm", *outputs({}, {"dimensions": 7}, RAW, HALF, BYTES, {**RAW, **HALF, "dimensions": 33})),
        *both("minilm", *outputs(*SMALL, *({**each, "dimensions": 33} for each in SMALL))),
        *both("minilm", {}, {"output": {"normalize": True}}, inputs=[*PAIRS, *IDS]),
    ],
    "labels": [
        *both("labels", *outputs({}, {"top_labels": 2}, {"raw_scores": True}, {"top_labels": 1, "raw_scores": True})),
        *both("labels", {}, inputs=[*PAIRS, *IDS]),
    ],
    "rank": both("rank", *outputs({}, {"raw_scores": True}), inputs=PAIRS),
    "entities": both("entities", *outputs(*({"aggregation": i} for i in range(6)))),
    "sparse": [
        *both("sparse", *outputs({}, {"max_active_dims": 5}, {"max_active_dims": 1})),
        *both("sparse", {}, inputs=IDS),
    ],
    "multi": [
        *both("multi", {"prompt_name": "query"}, {"prompt_name": "document"}, {"output": {"dimensions": 7}}),
        *both("multi", *outputs(HALF, BYTES, *SMALL, RAW)),
        *both("multi", {}, inputs=[*IDS, PUNCTUATION]),
    ],
    "static": both("static", *outputs({}, {"dimensions": 7}, BYTES, RAW)),
}
for requests in ENCODED.values():
    for number, request in enumerate(requests):
        request.request_id = number


def answers(stub: Any, requests: Sequence[pb.PredictRequest]) -> list[pb.PredictResponse]:
    calls = [stub.Predict.future(request, timeout=PATIENCE_S) for request in requests]
    return [call.result() for call in calls]


def in_a_batch(stub: Any, requests: Sequence[pb.PredictRequest]) -> list[pb.PredictResponse]:
    return list(stub.PredictBatch(pb.PredictBatchRequest(items=requests), timeout=PATIENCE_S).items)


def in_a_stream(stub: Any, requests: Sequence[pb.PredictRequest]) -> list[pb.PredictResponse]:
    return sorted(stub.PredictStream(iter(requests), timeout=PATIENCE_S), key=lambda each: each.request_id)


def assert_equal(requests: Sequence[Any], direct: Sequence[Any], edge: Sequence[Any]) -> None:
    assert len(direct) == len(edge) == len(requests)
    for request, one, other in zip(requests, direct, edge, strict=True):
        assert one.SerializeToString(deterministic=True) == other.SerializeToString(deterministic=True), (
            str(request)[:300], str(one)[:300], str(other)[:300],
        )  # fmt: skip


@pytest.mark.parametrize("model", ENCODED)
def test_answers_of_encoders(pair: Pair, model: str) -> None:
    requests = ENCODED[model]
    direct = answers(pair.stubs[0], requests)
    assert all(each.WhichOneof("output") and not each.HasField("status") for each in direct)
    assert any(each.usage.truncated for each in direct) or model == "static"
    assert_equal(requests, direct, answers(pair.stubs[1], requests))
    assert_equal(requests, direct, in_a_batch(pair.stubs[1], requests))
    assert_equal(requests, direct, in_a_stream(pair.stubs[1], requests))


def generations() -> list[pb.PredictRequest]:
    """Greedy and sampled, with every option, by texts and by ids."""
    chance = random.Random(5)
    sampled = {"seed": 1, "temperature": 1.0}
    forms: list[dict[str, Any]] = [
        {}, {"logprobs": True}, sampled, {**sampled, "top_k": 9, "logprobs": True}, {**sampled, "top_p": 0.8},
        {"seed": (1 << 64) - 1, "temperature": 3.0, "top_k": 64}, {"stop": ["e", "zzz"]}, {**sampled, "stop": ["a"]},
        {"stop_token_ids": list(range(0, 320, 40))}, {"ignore_eos": True}, {**sampled, "min_tokens": 9},
        {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2}, {"suppress_token_ids": list(range(2, 10))},
        {"presence_penalty": 0.5, "frequency_penalty": -1.0}, {**sampled, "min_p": 0.1},
        {"max_tokens": 1}, {"max_tokens": 1, "logprobs": True}, {**sampled, "top_logprobs": 20}, {"top_logprobs": 3},
    ]  # fmt: skip
    ids = [chance.randrange(2, 384) for _ in range(50)]
    prompts: list[dict[str, Any]] = [{"text": "The cat sat on "}, {"text": ""}, {"token_ids": {"ids": ids}}]
    asked = [{**prompt, "generate": {"max_tokens": 20, **form}} for form in forms for prompt in prompts]
    return [ask("generator", i, **fields) for i, fields in enumerate(asked)]


def test_generations(pair: Pair) -> None:
    requests = generations()
    direct = answers(pair.stubs[0], requests)
    reasons = {each.generation.finish_reason for each in direct}
    assert reasons == {pb.FINISH_REASON_STOP, pb.FINISH_REASON_LENGTH}
    assert_equal(requests, direct, answers(pair.stubs[1], requests))
    assert_equal(requests, direct, in_a_batch(pair.stubs[1], requests))
    assert_equal(requests, direct, in_a_stream(pair.stubs[1], requests))


def test_choices(pair: Pair) -> None:
    """Each is an item of its own at the edge. Of equal candidates the first is the better one, at both."""
    sampled = {"seed": 3, "temperature": 1.0, "max_tokens": 12}
    forms: list[dict[str, Any]] = [{"n": 3}, {"n": 2, "best_of": 4}, {"n": 2, "logprobs": True, "stop": ["e"]}]
    requests = [ask("generator", i, text="The cat ", generate={**sampled, **form}) for i, form in enumerate(forms)]
    direct = answers(pair.stubs[0], requests)
    assert [len(each.generation.other_choices) for each in direct] == [2, 1, 1]
    assert_equal(requests, direct, answers(pair.stubs[1], requests))
    found: list[list[int]] = [[], [], []]
    for chunk in pair.stubs[1].Generate(requests[0], timeout=PATIENCE_S):
        found[chunk.choice] += chunk.token_ids
    made = direct[0].generation
    assert found == [list(each.token_ids) for each in (made, *made.other_choices)]


def test_streamed_generations(pair: Pair) -> None:
    """Chunks may be cut elsewhere: their sum is the same, and the last one has the same usage."""
    requests = generations()
    for request, expected in zip(requests, answers(pair.stubs[0], requests), strict=True):
        chunks = list(pair.stubs[1].Generate(request, timeout=PATIENCE_S))
        found = pb.PredictResponse(request_id=chunks[-1].request_id, usage=chunks[-1].usage)
        found.generation.text = "".join(chunk.text for chunk in chunks)
        found.generation.finish_reason = chunks[-1].finish_reason
        for chunk in chunks:
            found.generation.token_ids.extend(chunk.token_ids)
            found.generation.logprobs.extend(chunk.logprobs)
            if chunk.HasField("top_logprobs"):
                found.generation.top_logprobs.MergeFrom(chunk.top_logprobs)
        assert all(not chunk.finish_reason and not chunk.HasField("usage") for chunk in chunks[:-1])
        assert_equal([request], [expected], [found])


@pytest.mark.parametrize("model", [*ENCODED, "generator"])
def test_timings(pair: Pair, model: str) -> None:
    """Each part is there, and none is longer than the whole."""
    request = ask(model, **({"pair": {"first": "a", "second": "b"}} if model == "rank" else {"text": "a cat"}))
    request.output.timings = True
    for _ in range(3):
        response = pair.stubs[1].Predict(request, timeout=PATIENCE_S)
        timings = response.timings
        assert timings.upstream_us > 0 and timings.device_us > 0, timings
        assert all(value < PATIENCE_S * 1e6 for _, value in timings.ListFields()), timings
    assert not pair.stubs[0].Predict(request, timeout=PATIENCE_S).timings.upstream_us
    if model == "generator":
        last = list(pair.stubs[1].Generate(request, timeout=PATIENCE_S))[-1]
        assert last.timings.upstream_us > 0 and last.timings.device_us > 0


def test_refusals(pair: Pair) -> None:
    """What a server refuses, its edge refuses in the same words."""
    requests = [
        ask("minilm", text=LONG_TEXT, truncate=False), ask("minilm"), ask("nobody", text="a"),
        ask("minilm", text="a", prompt_name="nobody"),
        ask("minilm", text="a", output={"dimensions": 999}), ask("minilm", token_ids={"ids": [1 << 30]}),
        ask("generator", text="a", generate={"max_tokens": 999}), ask("sparse", text="a", output={"dtype": 2}),
        ask("minilm", text="a", output={"dtype": pb.DTYPE_INT8, "normalize": False}),
    ]  # fmt: skip
    for request in requests:
        found = []
        for stub in pair.stubs:
            call = stub.Predict.future(request, timeout=PATIENCE_S)
            assert call.exception(), request
            found.append((call.code(), call.details()))
        assert found[0] == found[1], request


HTTP = [
    ("/v1/embeddings", {"model": "minilm", "input": [*TEXTS[1:4], "again"], "dimensions": 9}),
    ("/v1/embeddings", {"model": "static", "input": "a text", "encoding_format": "base64"}),
    ("/v1/completions", {"model": "generator", "prompt": "The cat", "max_tokens": 9, "seed": 3, "temperature": 1}),
    ("/v1/completions", {"model": "generator", "prompt": ["a", "b"], "max_tokens": 9, "seed": 2, "logprobs": 0}),
    ("/v1/rerank", {"model": "rank", "query": "food", "documents": TEXTS[1:], "top_n": 2}),
    ("/embed", {"inputs": TEXTS[1:4]}),
    ("/vertex", {"instances": [TEXTS[1], {"inputs": TEXTS[2:4]}]}),
    ("/v2/embed", {"model": "minilm", "texts": TEXTS[1:4], "embedding_types": ["uint8", "ubinary", "int8", "binary"]}),
    ("/v2/models/minilm/infer", {"inputs": [{"name": "text", "shape": [2], "datatype": "BYTES", "data": ["a", "b"]}]}),
]


@pytest.mark.parametrize(("path", "body"), HTTP, ids=[f"{i}{path}" for i, (path, _) in enumerate(HTTP)])
def test_http(pair: Pair, path: str, body: dict[str, Any]) -> None:
    found = [post(path, body) for post in pair.posters]
    for status, document in found:
        assert status == 200, document
        if isinstance(document, dict):
            assert document.pop("id", "") is not None and document.pop("created", 0) is not None
    assert found[0] == found[1]
