"""text-embeddings-inference's HTTP API: every answer against this server's own ``Predict``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from posting import Poster
from serving import Server

import fastqps

TEXTS = ["A man is eating food.", 'Zürich, "東京"\n\t', "word " * 40, "x"]
MINILM_IDS = [101, 7592, 102]


class Api:
    """One server by its HTTP port, beside its own client."""

    def __init__(self, server: Server, post: Poster, client: fastqps.Client) -> None:
        self.server, self.post, self.client = server, post, client

    def embedding(self, text: Any, **options: Any) -> np.ndarray:
        return self.client.predict(text, **{"normalize": True, **options}).embedding

    def scores(self, text: Any, **options: Any) -> list[dict[str, Any]]:
        found = self.client.predict(text, **options).labels
        return [{"score": each.score, "label": each.name} for each in found]


@contextmanager
def calling(server: Server) -> Iterator[Api]:
    with fastqps.Client(server.address) as client:
        post = Poster(server)
        yield Api(server, post, client)
        post.close()
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


def array(values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def sigmoid(x: float) -> float:
    return float(1 / (1 + np.exp(-np.float32(x))))


@pytest.mark.parametrize("options", [{}, {"normalize": False}, {"dimensions": 64}, {"truncate": True}])
@pytest.mark.parametrize("path", ["/embed", "/", "/invocations"])
def test_embeddings_are_those_of_predict_bit_by_bit(embedder: Api, path: str, options: dict[str, Any]) -> None:
    for text in TEXTS:
        found = embedder.post.found(path, inputs=text, **options)
        assert len(found) == 1 and np.array_equal(array(found[0]), embedder.embedding(text, **options))


def test_every_form_of_inputs_to_embed(embedder: Api) -> None:
    expected = np.stack([embedder.embedding(text) for text in [*TEXTS, MINILM_IDS]])
    found = embedder.post.found("/embed", inputs=[*TEXTS, MINILM_IDS])
    assert np.abs(array(found) - expected).max() <= 1e-5
    assert np.array_equal(array(embedder.post.found("/embed", inputs=MINILM_IDS)[0]), expected[-1])
    long = embedder.post.found("/embed", inputs="b " * 300, truncate=True)
    assert np.array_equal(array(long[0]), embedder.embedding("b " * 300, truncate=True))


def test_fields_that_tei_ignores(embedder: Api) -> None:
    found = embedder.post.found("/embed", inputs="a", prompt_name=None, truncate=None, options={"wait_for_model": True})
    assert np.array_equal(array(found[0]), embedder.embedding("a"))


@pytest.mark.parametrize("path", ["/similarity", "/"])
def test_similarities_are_cosines(embedder: Api, path: str) -> None:
    source, sentences = "food", [*TEXTS, "food"]
    inputs = {"source_sentence": source, "sentences": sentences}
    found = embedder.post.found(path, inputs=inputs, parameters={"truncate": True})
    expected = [float(embedder.embedding(source) @ embedder.embedding(text)) for text in sentences]
    assert found == pytest.approx(expected, abs=1e-5) and found[-1] == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("path", ["/predict", "/"])
def test_predictions(classifier: Api, path: str, raw: bool) -> None:
    for text in TEXTS:
        found = classifier.post.found(path, inputs=text, raw_scores=raw)
        expected = classifier.scores(text, raw_scores=raw)
        assert [each["label"] for each in found] == [each["label"] for each in expected]
        assert np.array_equal(array([e["score"] for e in found]), array([e["score"] for e in expected]))
        assert len(found) == 3


def test_every_form_of_inputs_to_predict(classifier: Api) -> None:
    def labels(found: Any) -> list[str]:
        return [each["label"] for each in found]

    one, pair = classifier.scores("a b"), classifier.scores(("a b", "c d"))
    assert labels(classifier.post.found("/predict", inputs=["a b"])) == labels(one)
    found = classifier.post.found("/predict", inputs=["a b", "c d"])
    assert array([each["score"] for each in found]).tolist() == array([each["score"] for each in pair]).tolist()
    batch = classifier.post.found("/predict", inputs=[["a b"], ["a b", "c d"]])
    assert [labels(each) for each in batch] == [labels(one), labels(pair)]
    for found, expected in zip(batch, (one, pair), strict=True):
        assert [each["score"] for each in found] == pytest.approx([each["score"] for each in expected], abs=1e-5)


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("return_text", [False, True])
@pytest.mark.parametrize("path", ["/rerank", "/"])
def test_ranks(ranker: Api, path: str, raw: bool, return_text: bool) -> None:
    query, texts = "what is food?", [*TEXTS, "", "A man is eating food."]
    found = ranker.post.found(path, query=query, texts=texts, raw_scores=raw, return_text=return_text)
    logits = [ranker.scores((query, text), raw_scores=True)[0]["score"] for text in texts]
    expected = logits if raw else [sigmoid(logit) for logit in logits]
    assert [rank["score"] for rank in found] == sorted((rank["score"] for rank in found), reverse=True)
    assert sorted(rank["index"] for rank in found) == list(range(len(texts)))
    for rank in found:
        assert rank["score"] == pytest.approx(expected[rank["index"]], abs=1e-5)
        assert rank.get("text") == (texts[rank["index"]] if return_text else None)


def test_tokens_and_texts(embedder: Api) -> None:
    text = "Zürich eats food."
    (tokens,) = embedder.post.found("/tokenize", inputs=text)
    assert [list(token) for token in tokens] == [["id", "text", "special", "start", "stop"]] * len(tokens)
    assert tokens[0] == {"id": 101, "text": "[CLS]", "special": True, "start": None, "stop": None}
    encoded = text.encode()
    assert all(encoded[t["start"] : t["stop"]].decode() == t["text"] for t in tokens[1:-1])
    assert [t["text"] for t in tokens[1:-1]] == ["Zürich", "eats", "food", "."]
    plain = embedder.post.found("/tokenize", inputs=[text, "x"], add_special_tokens=False)
    assert plain[0] == tokens[1:-1] and len(plain) == 2
    ids = [t["id"] for t in tokens]
    assert embedder.post.found("/decode", ids=ids) == ["zurich eats food."]
    assert embedder.post.found("/decode", ids=[ids, ids[1:2]], skip_special_tokens=False) == [
        "[CLS] zurich eats food. [SEP]",
        "zurich",
    ]


def test_tokens_of_many_texts(embedder: Api) -> None:
    """As many bytes and texts as text-embeddings-inference takes by default."""
    found = embedder.post.found("/tokenize", inputs=["hello " * 170] * 40)
    assert [len(tokens) for tokens in found] == [172] * 40
    ids = [[token["id"] for token in tokens] for tokens in found]
    assert embedder.post.found("/decode", ids=ids * 40) == [("hello " * 170).strip()] * 1600


def test_info(embedder: Api, classifier: Api, ranker: Api) -> None:
    status, info = embedder.post.get("/info")
    assert status == 200 and info["model_id"] == info["served_model_name"] == "minilm"
    assert info["model_type"] == {"embedding": {"pooling": "mean"}}
    assert (info["model_dtype"], info["max_input_length"], info["max_client_batch_size"]) == ("float32", 256, 2048)
    assert info["repeatable"] is True, "float32 on the CPU"
    assert info["auto_truncate"] is True and info["max_batch_requests"] > 0
    labels = {f"LABEL_{i}": i for i in range(3)}
    expected = {"id2label": {str(i): label for label, i in labels.items()}, "label2id": labels}
    assert classifier.post.get("/info")[1]["model_type"] == {"classifier": expected}
    assert list(ranker.post.get("/info")[1]["model_type"]) == ["reranker"]


PAIR = {"query": "a", "texts": ["b"]}
REFUSED: dict[str, tuple[str, str, Any, int, str, str]] = {
    "json": ("embedder", "/embed", b'{"inputs":', 400, "Validation", "the body is not valid JSON"),
    "root": ("embedder", "/", b'{"inputs":', 400, "Validation", "the body is not valid JSON"),
    "object": ("embedder", "/embed", [], 400, "Validation", "the body must be a JSON object"),
    "none": ("embedder", "/embed", {}, 422, "Validation", "inputs: must be given"),
    "empty": ("embedder", "/embed", {"inputs": []}, 400, "Empty", "inputs: an empty array"),
    "no text": ("embedder", "/embed", {"inputs": ["a", ""]}, 400, "Empty", "inputs: 0 characters, at least 1 (item 1)"),
    "no ids": ("embedder", "/embed", {"inputs": [[1], []]}, 400, "Empty", "inputs: 0 token ids, at least 1"),
    "many": ("embedder", "/embed", {"inputs": ["a"] * 2049}, 413, "Validation", "inputs: more than 2048 elements"),
    "long": ("embedder", "/embed", {"inputs": "b " * 300}, 422, "Validation", "inputs: 302 tokens, at most 256"),
    "large id": ("embedder", "/embed", {"inputs": [40_000]}, 422, "Validation", "inputs: id 40000, the vocabulary has"),
    "dimensions": ("embedder", "/embed", {"inputs": "a", "dimensions": 385}, 422, "Validation",
                   "dimensions: 385, at most 384"),
    "prompt": ("embedder", "/embed", {"inputs": "a", "prompt_name": "q"}, 422, "Validation", "prompt_name: 'q' is no"),
    "left": ("embedder", "/embed", {"inputs": "a", "truncate": True, "truncation_direction": "Left"}, 422,
             "Validation", "truncation_direction: left, but the model 'minilm' cuts on the right"),
    "no sentences": ("embedder", "/similarity", {"inputs": {"source_sentence": "a", "sentences": []}}, 400, "Empty",
                     "inputs.sentences: 0 texts, at least 1"),
    "sparse": ("embedder", "/embed_sparse", {"inputs": "a"}, 424, "Backend", "has no sparse embeddings"),
    "all": ("embedder", "/embed_all", {"inputs": "a"}, 424, "Backend", "not served here: POST /embed, or call Predict"),
    "no classes": ("embedder", "/predict", {"inputs": "a"}, 424, "Backend", "'minilm' is not a classifier model"),
    "no scores": ("embedder", "/rerank", PAIR, 424, "Backend", "'minilm' is not a classifier model"),
    "no vectors": ("classifier", "/embed", {"inputs": "a"}, 424, "Backend", "is not an embedding model"),
    "no ranks": ("classifier", "/rerank", PAIR, 424, "Backend", "is not a re-ranker model"),
    "three": ("classifier", "/predict", {"inputs": ["a"] * 3}, 422, "Validation", "inputs: 3 texts, must be 1 or 2"),
    "documents": ("ranker", "/rerank", {"query": "a", "documents": ["b"]}, 422, "Validation",
                  "documents: this route takes texts; POST /v1/rerank"),
    "no texts": ("ranker", "/rerank", {**PAIR, "texts": []}, 400, "Empty", "texts: 0 texts, at least 1"),
    "many texts": ("ranker", "/rerank", {**PAIR, "texts": ["b"] * 2049}, 413, "Validation", "texts: more than 2048"),
    "long text": ("ranker", "/rerank", {**PAIR, "texts": ["b " * 300]}, 422, "Validation", "texts: 30"),
    "verb": ("embedder", "/info", {}, 405, "Validation", "/info takes GET"),
    "path": ("embedder", "/embed/more", {}, 404, "Validation", "there is no route /embed/more"),
    "number": ("embedder", "/embed", {"inputs": ["a", 1]}, 422, "Validation", "inputs: element 1 is neither a string"),
    "surrogate": ("embedder", "/embed", b'{"inputs":["a","\\ud800"]}', 400, "Validation", "inputs[1] holds half of"),
    "texts": ("ranker", "/rerank", {**PAIR, "texts": ["b", 1]}, 422, "Validation", "texts: element 1 is no string"),
    "pairs": ("ranker", "/predict", {"inputs": [["a", "b"], ["a", 1]]}, 422, "Validation", "inputs: element 1: the"),
    "lists": ("ranker", "/predict", {"inputs": [["a", "b"], 1]}, 422, "Validation", "inputs: element 1 is no array"),
    "one long": ("embedder", "/embed", {"inputs": ["a", "b " * 300]}, 422, "Validation", "cut (item 1)"),
    "tokenize": ("embedder", "/tokenize", {"inputs": [1]}, 422, "Validation", "inputs[0]: must be a string"),
    "neither": ("embedder", "/tokenize", {"inputs": 1}, 422, "Validation", "inputs: must be a string or an array"),
    "2nd half": ("embedder", "/tokenize", b'{"inputs":["a","\\ud800"]}', 422, "Validation", "inputs[1]: a surrogate"),
    "half": ("embedder", "/tokenize", b'{"inputs":"\\ud800"}', 422, "Validation", "inputs: a surrogate"),
    "half a name": ("embedder", "/tokenize", b'{"inputs":"a","prompt_name":"\\ud800"}', 422, "Validation",
                    "prompt_name: a surrogate"),
    "long body": ("embedder", "/tokenize", {"inputs": "a" * (2 << 20)}, 413, "Validation", "larger than 2097152"),
    "tokens": ("embedder", "/tokenize", {"inputs": ["a"] * 2049}, 413, "Validation", "inputs: 2049 elements, at most"),
    "no tokens": ("embedder", "/tokenize", {"inputs": ""}, 400, "Empty", "inputs: 0 characters, at least 1"),
    "tokens of": ("embedder", "/tokenize", {"inputs": "a", "prompt_name": "q"}, 422, "Validation", "prompt_name: 'q'"),
    "flag": ("embedder", "/tokenize", {"inputs": "a", "add_special_tokens": 1}, 422, "Validation", "must be a bool"),
    "decode": ("embedder", "/decode", {"ids": [1.5]}, 422, "Validation", "ids: token ids must be integers, 0 or more"),
    "no decode": ("embedder", "/decode", {"ids": [[1], []]}, 400, "Empty", "ids: 0 ids, at least 1"),
    "deep": ("embedder", "/tokenize", b"[" * 15_000, 400, "Validation", "the body is not valid JSON"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(request: pytest.FixtureRequest, name: str) -> None:
    fixture, path, body, status, error_type, message = REFUSED[name]
    api = request.getfixturevalue(fixture)
    found_status, found = api.post(path, body)
    assert (found_status, found.get("error_type", "")) == (status, error_type), found
    assert message in found["error"], found
    assert api.post.get("/info")[0] == 200  # the connection goes on


def test_a_deadline_that_cannot_be_met(embedder: Api) -> None:
    status, found = embedder.post("/embed", inputs=["a " * 200] * 64, timeout=1e-6)
    # Refused at once if the server predicts it, and otherwise when the time is over.
    assert (status, found["error_type"]) in ((429, "Overloaded"), (504, "Backend"))


def test_calls_are_counted(embedder: Api, ranker: Api) -> None:
    embedder.post.found("/embed", inputs="a")
    assert embedder.server.metrics()["fastqps_requests_total{OK,tei.Embed,minilm}"] >= 1
    ranker.post.found("/rerank", **PAIR)
    assert any("tei.Rerank" in name for name in ranker.server.metrics())
