"""The APIs of text-embeddings-inference and the rerank of Cohere and Jina: answers against the server's ``Predict``.

Its models are an embedder, a generator, a classifier of three labels and a cross-encoder, in this order. A route
without a model's name takes the first that can do its task.
"""

from __future__ import annotations

import json
import random
from typing import Any

import grpc
import numpy as np
import pytest
from apis import Api
from google.protobuf.message import DecodeError
from reflected import method_at
from serving import PATIENCE_S

from fastqps.api.reflection import message_class

TEXTS = ["A man is eating food.", 'Zürich, "東京"\n\t', "word " * 40, "x"]
MINILM_IDS = [101, 7592, 102]
LONG = "b " * 300
Labels = list[tuple[str, float]]


def sigmoid(x: float) -> float:
    return float(1 / (1 + np.exp(-np.float32(x))))


# ---- embeddings

EMBED = ("tei.v1.Embed/Embed", "tei.v1.Embed/EmbedStream", "/embed", "/", "/invocations")


def embedded(api: Api, path: str, text: Any, **options: Any) -> np.ndarray:
    if path.startswith("/"):
        (found,) = api.post.found(path, inputs=text, **options)
        return np.array(found, np.float32)
    fields = {"inputs": text, **options}
    (answer,) = api.call(path, fields) if path.endswith("Stream") else [api.call(path, **fields)]
    assert answer.metadata.compute_chars == len(text)
    return np.array(answer.embeddings, np.float32)


@pytest.mark.parametrize("options", [{}, {"normalize": False}, {"dimensions": 64}, {"truncate": True}], ids=str)
@pytest.mark.parametrize("path", EMBED)
def test_embeddings_are_those_of_predict_bit_by_bit(api: Api, path: str, options: dict[str, Any]) -> None:
    for text in [*TEXTS, *([LONG] if "truncate" in options else [])]:
        expected = api.client.predict(text, **{"normalize": True, **options}).embedding
        assert np.array_equal(embedded(api, path, text, **options), expected)


def test_every_form_of_inputs_to_embed(api: Api) -> None:
    expected = np.stack([api.client.predict(text).embedding for text in [*TEXTS, MINILM_IDS]])
    found = api.post.found("/embed", inputs=[*TEXTS, MINILM_IDS])
    assert np.abs(np.array(found, np.float32) - expected).max() <= 1e-5
    assert np.array_equal(embedded(api, "/embed", MINILM_IDS), expected[-1])


TIMES = ["x-compute-time", "x-inference-time", "x-queue-time", "x-tokenization-time", "x-total-time"]


def test_headers_say_how_long_an_answer_took(api: Api) -> None:
    for path, fields, characters in (("/embed", {"inputs": ["Zürich", "b"]}, 7), ("/rerank", PAIR, 2)):
        response, _ = api.post.send("POST", path, json.dumps(fields).encode())
        found = {name.lower(): value for name, value in response.getheaders() if name.lower().startswith("x-")}
        assert found.pop("x-compute-type") == "cpu"
        assert sorted(found) == sorted([*TIMES, "x-compute-characters", "x-compute-tokens"])
        numbers = {name: int(value) for name, value in found.items()}
        assert (numbers["x-compute-characters"], numbers["x-compute-tokens"] > 4) == (characters, True)
        assert numbers["x-total-time"] >= numbers["x-inference-time"]


def test_fields_that_tei_ignores(api: Api) -> None:
    ignored = {"prompt_name": None, "truncate": None, "options": {"wait_for_model": True}}
    assert np.array_equal(embedded(api, "/embed", "a", **ignored), api.client.predict("a").embedding)


@pytest.mark.parametrize("path", ["/similarity", "/"])
def test_similarities_are_cosines(api: Api, path: str) -> None:
    source, sentences = "food", [*TEXTS, "food"]
    inputs = {"source_sentence": source, "sentences": sentences}
    found = api.post.found(path, inputs=inputs, parameters={"truncate": True})
    own = api.client.predict(source).embedding
    expected = [float(own @ api.client.predict(text).embedding) for text in sentences]
    assert found == pytest.approx(expected, abs=1e-5) and found[-1] == pytest.approx(1, abs=1e-6)


def test_metadata(api: Api) -> None:
    for text in TEXTS:
        found = api.call("tei.v1.Embed/Embed", inputs=text).metadata
        usage = api.client.predict(text).usage
        assert usage and (found.compute_chars, found.compute_tokens) == (len(text), usage.input_tokens)
        parts = found.tokenization_time_ns + found.queue_time_ns + found.inference_time_ns
        assert 0 < found.inference_time_ns <= parts <= found.total_time_ns
    assert api.call("tei.v1.Embed/Embed", inputs=LONG, truncate=True).metadata.compute_tokens == 256


def test_a_stream_of_embeddings_keeps_its_order(api: Api) -> None:
    texts = [f"{'word ' * (i % 60)}number {i}" for i in range(120)]
    found = api.call("tei.v1.Embed/EmbedStream", *[{"inputs": text} for text in texts])
    assert len(found) == len(texts)
    for answer, text in zip(found[::17], texts[::17], strict=True):
        assert np.abs(np.array(answer.embeddings) - api.client.predict(text).embedding).max() <= 1e-5


# ---- labels


def predicted(api: Api, path: str, inputs: Any, **options: Any) -> Labels:
    if path.startswith("/"):
        return [(each["label"], np.float32(each["score"])) for each in api.post.found(path, inputs=inputs, **options)]
    fields = {"inputs": inputs, **options}
    (answer,) = api.call(path, fields) if path.endswith("Stream") else [api.call(path, **fields)]
    assert answer.metadata.compute_chars == len("".join(inputs))
    return [(each.label, each.score) for each in answer.predictions]


def labels(api: Api, item: Any, **options: Any) -> Labels:
    return [(each.name, each.score) for each in api.client.predict(item, model="labelled", **options).labels]


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("path", ["tei.v1.Predict/Predict", "tei.v1.Predict/PredictStream", "/predict"])
def test_predictions(api: Api, path: str, raw: bool) -> None:
    for text in TEXTS:
        found = predicted(api, path, text, raw_scores=raw)
        assert found == labels(api, text, raw_scores=raw) and len(found) == 3


@pytest.mark.parametrize("path", ["tei.v1.Predict/PredictPair", "tei.v1.Predict/PredictPairStream", "/predict"])
def test_predictions_of_pairs(api: Api, path: str) -> None:
    assert predicted(api, path, ["a b", "c d"]) == labels(api, ("a b", "c d"))
    assert predicted(api, path, ["a b"]) == labels(api, "a b")


def test_a_batch_of_texts_and_pairs(api: Api) -> None:
    batch = api.post.found("/predict", inputs=[["a b"], ["a b", "c d"]])
    for found, item in zip(batch, ("a b", ("a b", "c d")), strict=True):
        expected = labels(api, item)
        assert [each["label"] for each in found] == [name for name, _ in expected]
        assert [each["score"] for each in found] == pytest.approx([score for _, score in expected], abs=1e-5)


def test_single_scores_are_probabilities(api: Api, only_ranker: Api) -> None:
    """Of a cross-encoder, which classifies where there is no classifier before it."""
    logit = api.client.predict(("a", "b"), model="ranker", raw_scores=True).labels[0].score
    assert predicted(api, "/predict", ["a", "b"], model="ranker", raw_scores=True) == [("LABEL_0", logit)]
    ((_, score),) = predicted(api, "/predict", ["a", "b"], model="ranker")
    assert score == pytest.approx(sigmoid(logit), abs=1e-6)
    (result,) = api.post.found("/v2/rerank", query="a", documents=["b"])["results"]
    assert result["relevance_score"] == pytest.approx(sigmoid(logit), abs=1e-7)
    (found,) = only_ranker.call("tei.v1.Predict/PredictPair", inputs=["a", "b"]).predictions
    assert 0 <= found.score <= 1


# ---- ranks

QUERY, DOCUMENTS = "what is food?", [*TEXTS, "", "A man is eating food."]


def ranked(api: Api, path: str, raw: bool, return_text: bool) -> list[dict[str, Any]]:
    options = {"raw_scores": raw, "return_text": return_text}
    if path.startswith("/"):
        return list(api.post.found(path, query=QUERY, texts=DOCUMENTS, **options))
    if path.endswith("Stream"):  # only the first message's options count
        others = {"raw_scores": not raw, "return_text": not return_text}
        messages = [{"query": QUERY, "text": text, **(others if i else options)} for i, text in enumerate(DOCUMENTS)]
        answer = api.call(path, *messages)
    else:
        answer = api.call(path, query=QUERY, texts=DOCUMENTS, **options)
    assert answer.metadata.compute_chars == sum(len(QUERY) + len(text) for text in DOCUMENTS)
    assert 0 < answer.metadata.inference_time_ns <= answer.metadata.total_time_ns
    return [
        {"index": rank.index, "score": rank.score, **({"text": rank.text} if rank.HasField("text") else {})}
        for rank in answer.ranks
    ]


@pytest.fixture(scope="module")
def logits(api: Api) -> list[float]:
    """The relevance of each document."""
    pairs = ((QUERY, text) for text in DOCUMENTS)
    return [api.client.predict(pair, model="ranker", raw_scores=True).labels[0].score for pair in pairs]


def check_ranks(found: list[tuple[int, float]], expected: list[float]) -> None:
    """By (index, score): all, each with its own score, the best first."""
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
    assert sorted(index for index, _ in found) == list(range(len(expected)))
    for index, score in found:
        assert score == pytest.approx(expected[index], abs=1e-5)


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("return_text", [False, True])
@pytest.mark.parametrize("path", ["tei.v1.Rerank/Rerank", "tei.v1.Rerank/RerankStream", "/rerank"])
def test_ranks(api: Api, logits: list[float], path: str, raw: bool, return_text: bool) -> None:
    found = ranked(api, path, raw, return_text)
    check_ranks([(r["index"], r["score"]) for r in found], logits if raw else [*map(sigmoid, logits)])
    for rank in found:
        assert rank.get("text") == (DOCUMENTS[rank["index"]] if return_text else None)


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("as_objects", [False, True])
def test_ranks_as_cohere_and_jina(api: Api, logits: list[float], version: str, as_objects: bool) -> None:
    documents = [{"text": text, "title": "t"} for text in DOCUMENTS] if as_objects else DOCUMENTS
    found = api.post.found(f"/v{version}/rerank", model="ranker", query=QUERY, documents=documents)
    assert all(set(result) == {"index", "relevance_score"} for result in found["results"])
    check_ranks([(r["index"], r["relevance_score"]) for r in found["results"]], [*map(sigmoid, logits)])
    assert found["model"] == "ranker" and found["meta"]["api_version"]["version"] == version
    assert found["usage"]["total_tokens"] == found["usage"]["prompt_tokens"] > 5 * len(DOCUMENTS)


@pytest.mark.parametrize("version", ["1", "2"])
def test_embeddings_as_cohere(api: Api, version: str) -> None:
    expected = [api.client.predict(text).embedding for text in TEXTS]
    fields = {"texts": TEXTS, "model": "minilm", "input_type": "search_query", "truncate": "END", "max_tokens": 256}
    found = api.post.found(f"/v{version}/embed", **fields)
    floats = found["embeddings"] if version == "1" else found["embeddings"]["float"]
    assert np.abs(np.array(floats, np.float32) - np.stack(expected)).max() <= 1e-5
    assert found["response_type"] == {"1": "embeddings_floats", "2": "embeddings_by_type"}[version]
    assert (found["texts"], found["meta"]["api_version"]["version"]) == (TEXTS, version)
    assert found["meta"]["billed_units"]["input_tokens"] > len(TEXTS)
    named = api.post.found(f"/v{version}/embed", **fields, embedding_types=["ubinary", "int8"], output_dimension=20)
    assert {name: np.shape(rows) for name, rows in named["embeddings"].items()} == {"int8": (4, 20), "ubinary": (4, 3)}


OLLAMA = ({}, {"dimensions": 64}, {"model": "minilm:latest", "keep_alive": "5m", "options": {"num_ctx": 8}})


@pytest.mark.parametrize("options", OLLAMA, ids=str)
def test_embeddings_as_ollama(api: Api, options: dict[str, Any]) -> None:
    size = options.get("dimensions", 384)
    expected = np.stack([api.client.predict(text, dimensions=size, normalize=True).embedding for text in TEXTS])
    found = api.post.found("/api/embed", input=[*TEXTS[:-1], LONG, TEXTS[-1]], **options)
    vectors = np.array(found["embeddings"], np.float32)
    assert np.abs(np.delete(vectors, -2, 0) - expected).max() <= 1e-5
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)
    assert (found["model"], found["prompt_eval_count"] > 256, found["total_duration"] > 0) == ("minilm", True, True)
    plain = api.client.predict(TEXTS[0], dimensions=size, normalize=False).embedding
    (one,) = api.post.found("/api/embeddings", prompt=TEXTS[0], **options).values()
    assert np.array_equal(np.array(one, np.float32), plain)


@pytest.mark.parametrize(
    ("path", "fields", "status", "message"),
    [
        ("/api/embed", {"prompt": "a"}, 400, "input: must be given"),
        ("/api/embed", {"input": ""}, 400, "input: 0 characters, at least 1"),
        ("/api/embed", {"input": 1}, 400, "input: must be a string"),
        ("/api/embed", {"input": LONG, "truncate": False}, 400, "input: 302 tokens, at most"),
        ("/api/embed", {"input": "a", "model": "llama3:8b"}, 404, "model: 'llama3:8b' is not served here; served: "),
        ("/api/embeddings", {"prompt": ["a", "b"]}, 400, "prompt: more than 1 elements, which is the most"),
        ("/api/generate", {"prompt": "a"}, 404, "no route /api/generate; POST /v1/completions generates"),
        ("/api/pull", {}, 404, "no route /api/pull; GET /docs shows all routes"),
        ("/api/chat", {}, 404, "no route /api/chat; POST /v1/chat/completions answers messages"),
    ],
)
def test_refusals_of_ollama(api: Api, path: str, fields: dict[str, Any], status: int, message: str) -> None:
    """And of other servers' routes, which name the one here."""
    found_status, found = api.post(path, fields)
    assert found_status == status and message in str(found["error"]), found


@pytest.mark.parametrize("path", ["/v1/rerank", "/rerank"])
def test_options_of_cohere_and_jina(api: Api, path: str) -> None:
    def results(**options: Any) -> list[dict[str, Any]]:
        return list(api.post.found(path, query=QUERY, documents=DOCUMENTS, **options)["results"])

    whole = results()
    found = results(top_n=2, return_documents=True, max_tokens_per_doc=4096)
    assert [result["index"] for result in found] == [result["index"] for result in whole[:2]]
    assert [result["document"] for result in found] == [{"text": DOCUMENTS[r["index"]]} for r in found]
    nulls = dict.fromkeys(("top_n", "return_documents", "rank_fields", "max_chunks_per_doc", "max_tokens_per_doc"))
    assert len(results(top_n=100)) == len(results(**nulls)) == len(DOCUMENTS)


# ---- the model of a route, and the server

PAIR = {"query": "a", "texts": ["b"]}


def shape_of(answer: Any) -> Any:
    """An answer with its numbers left out."""
    if isinstance(answer, list):
        return [shape_of(each) for each in answer]
    if isinstance(answer, dict):
        return {name: shape_of(each) for name, each in answer.items()}
    return answer if isinstance(answer, str) else float


def numbers_of(answer: Any) -> list[float]:
    """The numbers of an answer."""
    if isinstance(answer, dict):
        answer = list(answer.values())
    if isinstance(answer, list):
        return [number for each in answer for number in numbers_of(each)]
    return [] if isinstance(answer, str) else [answer]


def test_a_model_that_is_named(api: Api) -> None:
    """It answers as where the route finds it by itself."""
    for path, model, fields in (
        ("/embed", "minilm", {"inputs": "food"}),
        ("/predict", "labelled", {"inputs": "food"}),
        ("/rerank", "ranker", PAIR),
    ):
        assert api.post.found(path, model=model, **fields) == api.post.found(path, **fields)


def test_the_root_does_what_the_first_model_can(only_labelled: Api, only_ranker: Api) -> None:
    assert only_labelled.post.found("/", inputs="a") == only_labelled.post.found("/predict", inputs="a")
    assert only_ranker.post.found("/", **PAIR) == only_ranker.post.found("/rerank", **PAIR)


EMBEDS = ({"inputs": "a"}, {"inputs": ["b", MINILM_IDS]}, {"inputs": "c", "normalize": False})
PREDICTS = ({"inputs": "a b"}, {"inputs": [["a"], ["a", "b"]]}, {"inputs": ["a", "b"], "raw_scores": True})
RANKS = ({"query": "a", "texts": ["b", "c"]}, {"query": "d", "texts": ["e"], "return_text": True})


@pytest.mark.parametrize(
    ("server", "path", "route", "bodies"),
    [
        ("api", "/vertex", "/embed", EMBEDS),
        ("only_labelled", "/predict", "/predict", PREDICTS),  # its --predict-route
        ("only_ranker", "/v1/endpoints/1/deployedModels/2:predict", "/rerank", RANKS),
    ],
)
def test_instances_of_vertex_are_bodies_of_a_route(
    request: pytest.FixtureRequest, server: str, path: str, route: str, bodies: tuple[dict[str, Any], ...]
) -> None:
    post = request.getfixturevalue(server).post
    one_by_one = [post.found(route, **body) for body in bodies]
    together = post.found(path, instances=list(bodies), parameters=None)
    assert list(together) == ["predictions"] and len(together["predictions"]) == len(bodies)
    for found, expected in zip(together["predictions"], one_by_one, strict=True):
        assert shape_of(found) == shape_of(expected)
        assert numbers_of(found) == pytest.approx(numbers_of(expected), abs=1e-5)


def test_parameters_and_plain_instances_of_vertex(api: Api) -> None:
    found = api.post.found("/vertex", instances=["a", {"inputs": "a", "normalize": True}], parameters={"dimensions": 8})
    assert found["predictions"] == [api.post.found("/embed", inputs="a", dimensions=8)] * 2


def test_the_health_route_of_a_platform_can_be_the_path_of_predictions(only_ranker: Api) -> None:
    path = "/v1/endpoints/1/deployedModels/2:predict"
    assert only_ranker.post.send("GET", path)[0].status == 200
    assert only_ranker.post.get("/openapi.json")[1]["paths"][path].keys() == {"get", "post"}


def test_info(api: Api, only_labelled: Api, only_ranker: Api) -> None:
    names = {f"LABEL_{i}": i for i in range(3)}
    classifier = {"classifier": {"id2label": {str(i): label for label, i in names.items()}, "label2id": names}}
    for own, number, told in ((api, 0, {"embedding": {"pooling": "mean"}}), (only_labelled, 1, classifier),
                              (only_ranker, 2, None)):  # fmt: skip
        model = own.client.models()[0]
        info = own.call("tei.v1.Info/Info")
        assert (info.model_id, info.model_sha, info.model_type) == (model.name, model.version, number)
        assert info.max_input_length == model.input_tokens_max and info.max_batch_requests > 0
        assert info.max_batch_tokens >= info.max_input_length and info.tokenization_workers == 1
        status, found = own.post.get("/info")
        assert status == 200 and found["model_id"] == found["served_model_name"] == model.name
        assert found["model_type"] == told or [*found["model_type"]] == ["reranker"]
        for name in ("model_dtype", "max_input_length", "max_client_batch_size", "max_batch_requests"):
            assert found[name] == getattr(info, name), name
    status, found = api.post.get("/info")
    assert (found["model_dtype"], found["max_input_length"], found["max_client_batch_size"]) == ("float32", 256, 2048)
    assert found["repeatable"] is True, "float32 on the CPU"


def test_tokens_and_texts(api: Api) -> None:
    text = "Zürich eats food."
    (tokens,) = api.post.found("/tokenize", inputs=text)
    assert [list(token) for token in tokens] == [["id", "text", "special", "start", "stop"]] * len(tokens)
    assert tokens[0] == {"id": 101, "text": "[CLS]", "special": True, "start": None, "stop": None}
    encoded = text.encode()
    assert all(encoded[t["start"] : t["stop"]].decode() == t["text"] for t in tokens[1:-1])
    assert [t["text"] for t in tokens[1:-1]] == ["Zürich", "eats", "food", "."]
    plain = api.post.found("/tokenize", inputs=[text, "x"], add_special_tokens=False)
    assert plain[0] == tokens[1:-1] and len(plain) == 2
    for special, expected in ((True, tokens), (False, tokens[1:-1])):
        found = api.call("tei.v1.Tokenize/Tokenize", inputs=text, add_special_tokens=special).tokens
        assert [{"id": t.id, "text": t.text, "special": t.special, "start": t.start if t.HasField("start") else None,
                 "stop": t.stop if t.HasField("stop") else None} for t in found] == expected  # fmt: skip
    streamed = api.call("tei.v1.Tokenize/TokenizeStream", {"inputs": "a b"}, {"inputs": "a"})
    assert [len(each.tokens) for each in streamed] == [2, 1]
    ids, whole = [t["id"] for t in tokens], "[CLS] zurich eats food. [SEP]"
    assert api.post.found("/decode", ids=ids) == ["zurich eats food."]
    assert api.post.found("/decode", ids=[ids, ids[1:2]], skip_special_tokens=False) == [whole, "zurich"]
    assert api.call("tei.v1.Tokenize/Decode", ids=ids, skip_special_tokens=True).text == "zurich eats food."
    assert api.call("tei.v1.Tokenize/Decode", ids=ids).text == whole


def test_tokens_of_many_texts(api: Api) -> None:
    """As many bytes and texts as text-embeddings-inference takes by default."""
    found = api.post.found("/tokenize", inputs=["hello " * 170] * 40)
    assert [len(tokens) for tokens in found] == [172] * 40
    ids = [[token["id"] for token in tokens] for tokens in found]
    assert api.post.found("/decode", ids=ids * 40) == [("hello " * 170).strip()] * 1600


# ---- refusals. csrc/tests/json and csrc/tests/service have those of what a reader sees by itself.

INVALID, PRECONDITION = "INVALID_ARGUMENT", "FAILED_PRECONDITION"
REFUSED: dict[str, tuple[str, str, dict[str, Any], str, str]] = {
    "empty": ("api", "Embed/Embed", {}, INVALID, "inputs: 0 characters, at least 1"),
    "long": ("api", "Embed/Embed", {"inputs": LONG}, INVALID, "inputs: 302 tokens, at most 256"),
    "prompt": ("api", "Embed/Embed", {"inputs": "a", "prompt_name": "q"}, INVALID, "prompt_name: 'q' is no prompt"),
    "dimensions": ("api", "Embed/Embed", {"inputs": "a", "dimensions": 385}, INVALID, "dimensions: 385, at most 384"),
    "none": ("api", "Embed/Embed", {"inputs": "a", "dimensions": 0}, INVALID, "dimensions: is 0, must be"),
    "left": ("api", "Embed/Embed", {"inputs": "a", "truncate": True, "truncation_direction": 1}, INVALID,
             "truncation_direction: left, but the model 'minilm' cuts on the right"),
    "side": ("api", "Embed/Embed", {"inputs": "a", "truncation_direction": 2}, INVALID, "truncation_direction: 2"),
    "no vectors": ("only_labelled", "Embed/Embed", {"inputs": "a"}, PRECONDITION, "is not an embedding model"),
    "no ranks": ("only_labelled", "Rerank/Rerank", PAIR, PRECONDITION, "is not a re-ranker model"),
    "three": ("api", "Predict/PredictPair", {"inputs": ["a"] * 3}, INVALID, "inputs: 3 texts, must be 1 or 2"),
    "no pair": ("api", "Predict/PredictPair", {}, INVALID, "inputs: 0 texts, must be 1 or 2"),
    "no text": ("api", "Predict/Predict", {}, INVALID, "inputs: 0 characters, at least 1"),
    "no texts": ("api", "Rerank/Rerank", {"query": "a"}, INVALID, "texts: 0 texts, at least 1"),
    "many texts": ("api", "Rerank/Rerank", {"query": "a", "texts": ["b"] * 2049}, INVALID, "texts: 2049 texts"),
    "long text": ("api", "Rerank/Rerank", {"query": "a", "texts": ["b", LONG]}, INVALID, "texts: 30"),
    "sparse": ("api", "Embed/EmbedSparse", {"inputs": "a"}, PRECONDITION, "'minilm' has no sparse embeddings"),
    "all": ("api", "Embed/EmbedAll", {"inputs": "a"}, PRECONDITION, "'minilm' makes no vector of each token"),
    "no characters": ("api", "Tokenize/Tokenize", {}, INVALID, "inputs: 0 characters, must have 1 to 64000"),
    "no ids": ("api", "Tokenize/Decode", {}, INVALID, "ids: 0 ids, at least 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(request: pytest.FixtureRequest, name: str) -> None:
    fixture, method, fields, code, message = REFUSED[name]
    found, details = request.getfixturevalue(fixture).refusal(f"tei.v1.{method}", **fields)
    assert (found, message in details) == (code, True), details


VALIDATION, EMPTY, BACKEND = "Validation", "Empty", "Backend"
REFUSED_OVER_HTTP: dict[str, tuple[str, Any, int, str, str]] = {
    "empty": ("/embed", {"inputs": ["a", ""]}, 400, EMPTY, "inputs: 0 characters, at least 1 (item 1)"),
    "many": ("/embed", {"inputs": ["a"] * 2049}, 413, VALIDATION, "inputs: more than 2048 elements"),
    "long": ("/embed", {"inputs": ["a", LONG], "truncate": False}, 422, VALIDATION, "inputs: 302 tokens, at most 256"),
    "one long": ("/embed", {"inputs": ["a", LONG], "truncate": False}, 422, VALIDATION, "tokens (item 1)"),
    "large id": ("/embed", {"inputs": [40_000]}, 422, VALIDATION, "inputs: id 40000, the vocabulary has"),
    "dimensions": ("/embed", {"inputs": "a", "dimensions": 385}, 422, VALIDATION, "dimensions: 385, at most 384"),
    "prompt": ("/embed", {"inputs": "a", "prompt_name": "q"}, 422, VALIDATION, "prompt_name: 'q' is no"),
    "left": ("/embed", {"inputs": "a", "truncate": True, "truncation_direction": "Left"}, 422, VALIDATION,
             "truncation_direction: left, but the model 'minilm' cuts on the right"),
    "long text": ("/rerank", {**PAIR, "texts": [LONG], "truncate": False}, 422, VALIDATION, "texts: 30"),
    "sparse": ("/embed_sparse", {"inputs": "a"}, 424, BACKEND, "has no sparse embeddings"),
    "all": ("/embed_all", {"inputs": "a"}, 424, BACKEND, "'minilm' makes no vector of each token"),
    "no vectors": ("/embed", {"model": "labelled", "inputs": "a"}, 424, BACKEND, "'labelled' is not an embedding"),
    "no classes": ("/predict", {"model": "minilm", "inputs": "a"}, 424, BACKEND, "these can: 'labelled', "),
    "three labels": ("/rerank", {"model": "labelled", **PAIR}, 424, BACKEND,
                     "it has 3 labels, and a re-ranker has 1; of those that are served, "),
    "no ranks": ("/rerank", {"model": "minilm", **PAIR}, 424, BACKEND, "these can: 'ranker'"),
    "documents": ("/rerank", {"query": "a", "documents": []}, 400, EMPTY, "documents: 0 documents, at least 1"),
    "no documents": ("/rerank", {"query": "a", "documents": None}, 422, VALIDATION, "texts: must be given"),
    "instances": ("/vertex", {"inputs": "a"}, 422, VALIDATION, "instances: must be given"),
    "no array": ("/vertex", {"instances": "a"}, 422, VALIDATION, "instances: must be an array"),
    "none": ("/vertex", {"instances": []}, 400, EMPTY, "instances: an empty array"),
    "an instance": ("/vertex", {"instances": ["a", {"inputs": 1}]}, 422, VALIDATION, "instances[1].inputs: must be"),
    "too many": ("/vertex", {"instances": [["a"] * 1500] * 2}, 413, VALIDATION, "instances: more than 2048 inputs"),
    "parameters": ("/vertex", {"instances": ["a"], "parameters": 1}, 422, VALIDATION, "parameters: must be an object"),
    "a parameter": ("/vertex", {"instances": ["a"], "parameters": {"truncate": 1}}, 422, VALIDATION, "truncate: must"),
    "an empty one": ("/vertex", {"instances": ["a", ""]}, 400, EMPTY, "inputs: 0 characters, at least 1"),
    "model": ("/embed", {"model": "none", "inputs": "a"}, 404, VALIDATION, "'none' is not served here"),
    "verb": ("/info", {}, 405, VALIDATION, "/info takes GET"),
    "path": ("/embed/more", {}, 404, VALIDATION, "there is no route /embed/more"),
    "surrogate": ("/embed", b'{"inputs":["a","\\ud800"]}', 400, VALIDATION, "inputs[1] holds half of"),
    "tokenize": ("/tokenize", {"inputs": [1]}, 422, VALIDATION, "inputs[0]: must be a string"),
    "no field": ("/tokenize", {"text": "a"}, 422, VALIDATION, "inputs: must be given; or prompt or messages"),
    "neither": ("/tokenize", {"inputs": 1}, 422, VALIDATION, "inputs: must be a string or an array"),
    "2nd half": ("/tokenize", b'{"inputs":["a","\\ud800"]}', 422, VALIDATION, "inputs[1]: a surrogate"),
    "half": ("/tokenize", b'{"inputs":"\\ud800"}', 422, VALIDATION, "inputs: a surrogate"),
    "half a name": ("/tokenize", b'{"inputs":"a","prompt_name":"\\ud800"}', 422, VALIDATION, "prompt_name: a surr"),
    "long body": ("/tokenize", {"inputs": "a" * (2 << 20)}, 413, VALIDATION, "larger than 2097152"),
    "tokens": ("/tokenize", {"inputs": ["a"] * 2049}, 413, VALIDATION, "inputs: 2049 elements, at most"),
    "no tokens": ("/tokenize", {"inputs": ""}, 400, EMPTY, "inputs: 0 characters, at least 1"),
    "tokens of": ("/tokenize", {"inputs": "a", "prompt_name": "q"}, 422, VALIDATION, "prompt_name: 'q'"),
    "flag": ("/tokenize", {"inputs": "a", "add_special_tokens": 1}, 422, VALIDATION, "must be a bool"),
    "decode": ("/decode", {"ids": [1.5]}, 422, VALIDATION, "ids: token ids must be integers, 0 or more"),
    "no decode": ("/decode", {"ids": [[1], []]}, 400, EMPTY, "ids: 0 ids, at least 1"),
    "deep": ("/tokenize", b"[" * 15_000, 400, VALIDATION, "the body is not valid JSON"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED_OVER_HTTP)
def test_refusals_over_http(api: Api, name: str) -> None:
    path, body, status, error_type, message = REFUSED_OVER_HTTP[name]
    found_status, found = api.post(path, body)
    assert (found_status, found.get("error_type", "")) == (status, error_type), found
    assert message in found["error"], found
    assert api.post.get("/info")[0] == 200  # the connection goes on


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"{", 400, "the body is not valid JSON"),
        ({"model": "none"}, 404, "model: 'none' is not served here; served: 'minilm', 'grammar',"),
        ({"model": "minilm"}, 400, "the model 'minilm' is not a re-ranker model; of those that are served, these can"),
        ({"documents": ["b"] * 2049}, 400, "documents: more than 2048 documents, which is the most"),
        ({"documents": ["b " * 1000], "truncate": False}, 400, "documents: 1004 tokens, at most"),
    ],
)
def test_refusals_of_rerank(api: Api, body: Any, status: int, message: str) -> None:
    given = body if isinstance(body, bytes) else {"model": "ranker", "query": "a", "documents": ["b"], **body}
    found_status, found = api.post("/v2/rerank", given)
    assert found_status == status and message in found["message"] and found["detail"] == found["message"], found


def test_a_deadline_that_cannot_be_met(api: Api) -> None:
    status, found = api.post("/embed", inputs=["a " * 200] * 64, timeout=1e-6)
    # Refused at once if the server predicts it, and otherwise when the time is over.
    assert (status, found["error_type"]) in ((429, "Overloaded"), (504, BACKEND))


def test_damaged_messages_are_read_as_protobuf_reads_them(api: Api) -> None:
    """One byte is replaced, taken out or put in: either both refuse the message, or the answer is that of what protobuf
    reads."""
    request_type, response_type = message_class("tei.v1.EmbedRequest"), message_class("tei.v1.EmbedResponse")
    call = api.channel.unary_unary("/tei.v1.Embed/Embed")
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
            assert refused.code() == grpc.StatusCode.INVALID_ARGUMENT
            damaged = any(word in refused.details() for word in ("not valid protobuf", "not valid UTF-8"))
            assert damaged == (read is None), (data, refused.details())
            outcome = "damaged" if damaged else "wrong"
        else:
            normalize = not read.HasField("normalize") or read.normalize
            options = {"truncate": read.truncate, "normalize": normalize, "dimensions": read.dimensions}
            expected = api.client.predict(read.inputs, **options).embedding
            assert np.array_equal(np.array(answer.embeddings, np.float32), expected), data
            outcome = "answered"
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    assert len(outcomes) == 3, outcomes


def test_answers_are_what_protobuf_writes(api: Api) -> None:
    """No unknown, misplaced or superfluous field."""
    for path, fields in (
        ("Embed/Embed", {"inputs": "a"}),
        ("Predict/Predict", {"inputs": "a"}),
        ("Rerank/Rerank", {**PAIR, "return_text": True}),
        ("Tokenize/Tokenize", {"inputs": "a"}),
        ("Info/Info", {}),
    ):
        _, request = method_at(api.channel, f"tei.v1.{path}")
        data = api.channel.unary_unary(f"/tei.v1.{path}")(request(**fields).SerializeToString(), timeout=PATIENCE_S)
        name = path.partition("/")[2].replace("Tokenize", "Encode")
        answer = message_class(f"tei.v1.{name}Response").FromString(data)
        assert answer.SerializeToString(deterministic=True) == data


def test_a_stream_ends_with_its_first_failure(api: Api) -> None:
    """Behind the answers to the requests before."""
    method, request = method_at(api.channel, "tei.v1.Embed/EmbedStream")
    answers = method(iter([request(inputs=text) for text in ("a", "b", "", "c", "")]), timeout=PATIENCE_S)
    found: list[Any] = []
    with pytest.raises(grpc.RpcError) as refused:
        found.extend(answers)
    assert len(found) == 2 and refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert refused.value.details() == "inputs: 0 characters, at least 1"


def test_streams_that_are_empty_or_too_long(api: Api) -> None:
    assert api.call("tei.v1.Embed/EmbedStream") == []
    for count, message in ((0, "the stream has no messages"), (2049, "more than 2048 items")):
        code, details = api.refusal("tei.v1.Rerank/RerankStream", *[{"query": "a", "text": "b"}] * count)
        assert code == INVALID and message in details
