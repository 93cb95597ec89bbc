"""The rerank API of Cohere and Jina: every answer against this server's own ``Predict``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from posting import Poster
from serving import Server

import fastqps

QUERY = "what is food?"
DOCUMENTS = ["A man is eating food.", 'Zürich, "東京"\n\t', "word " * 40, "", "A man is eating food."]


@pytest.fixture(scope="module")
def expected(server: Server) -> list[float]:
    """The relevance of each document."""
    with fastqps.Client(server.address) as client:
        pairs = [(QUERY, document) for document in DOCUMENTS]
        logits = [client.predict(pair, model="ranker", raw_scores=True).labels[0].score for pair in pairs]
    return [float(1 / (1 + np.exp(-np.float32(logit)))) for logit in logits]


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("as_objects", [False, True])
def test_ranks(post: Poster, expected: list[float], version: str, as_objects: bool) -> None:
    documents = [{"text": text, "title": "t"} for text in DOCUMENTS] if as_objects else DOCUMENTS
    found = post.found(f"/v{version}/rerank", model="ranker", query=QUERY, documents=documents)
    scores = [result["relevance_score"] for result in found["results"]]
    assert scores == sorted(scores, reverse=True)
    assert scores == pytest.approx(sorted(expected, reverse=True), abs=1e-5)
    assert sorted(result["index"] for result in found["results"]) == list(range(len(DOCUMENTS)))
    for result in found["results"]:
        assert set(result) == {"index", "relevance_score"}
        assert result["relevance_score"] == pytest.approx(expected[result["index"]], abs=1e-5)
    assert found["model"] == "ranker" and found["meta"]["api_version"]["version"] == version
    assert found["usage"]["total_tokens"] == found["usage"]["prompt_tokens"] > 5 * len(DOCUMENTS)


def test_one_document_has_the_score_of_predict_bit_by_bit(post: Poster, server: Server) -> None:
    with fastqps.Client(server.address) as client:
        logit = client.predict((QUERY, "food"), model="ranker", raw_scores=True).labels[0].score
    (result,) = post.found("/v2/rerank", model="ranker", query=QUERY, documents=["food"])["results"]
    assert result["relevance_score"] == pytest.approx(1 / (1 + np.exp(-logit)), abs=1e-7)


def test_options(post: Poster) -> None:
    fields = {"model": "ranker", "query": QUERY, "documents": DOCUMENTS}
    whole = post.found("/v1/rerank", **fields)["results"]
    found = post.found("/v1/rerank", **fields, top_n=2, return_documents=True, max_tokens_per_doc=4096)["results"]
    assert [result["index"] for result in found] == [result["index"] for result in whole[:2]]
    assert [result["document"] for result in found] == [{"text": DOCUMENTS[r["index"]]} for r in found]
    assert len(post.found("/v1/rerank", **fields, top_n=100)["results"]) == len(DOCUMENTS)
    nulls = dict.fromkeys(("top_n", "return_documents", "rank_fields", "max_chunks_per_doc", "max_tokens_per_doc"))
    assert len(post.found("/v1/rerank", **fields, **nulls)["results"]) == len(DOCUMENTS)


def test_long_documents_are_cut(post: Poster) -> None:
    fields = {"model": "ranker", "query": QUERY, "documents": ["food " * 1000]}
    assert len(post.found("/v2/rerank", **fields)["results"]) == 1
    status, found = post("/v2/rerank", **fields, truncate=False)
    assert status == 400 and "documents: " in found["message"] and "tokens, at most" in found["message"]


def test_a_request_of_many_documents(post: Poster) -> None:
    documents = [f"number {i}" for i in range(500)]
    found = post.found("/v2/rerank", model="ranker", query=QUERY, documents=documents)["results"]
    back = post.found("/v2/rerank", model="ranker", query=QUERY, documents=documents[::-1])["results"]
    forth_scores = {result["index"]: result["relevance_score"] for result in found}
    for result in back:
        assert result["relevance_score"] == pytest.approx(forth_scores[499 - result["index"]], abs=1e-5)


VALID = {"model": "ranker", "query": "a", "documents": ["b"]}
REFUSED: dict[str, tuple[Any, int, str]] = {
    "json": (b"{", 400, "the body is not valid JSON"),
    "model": (
        {**VALID, "model": "none"},
        404,
        "model: 'none' is not served here; served: 'minilm', 'grammar',",
    ),
    "task": ({**VALID, "model": "minilm"}, 400, "the model 'minilm' is not a classifier model"),
    "query": ({**VALID, "query": ""}, 400, "query: 0 characters, at least 1"),
    "documents": ({**VALID, "documents": []}, 400, "documents: 0 documents, at least 1"),
    "many": ({**VALID, "documents": ["b"] * 2049}, 400, "documents: more than 2048 documents, which is the most"),
    "number": ({**VALID, "documents": ["b", 1]}, 400, "documents: element 1 is neither a string nor"),
    "tokens": ({**VALID, "max_tokens_per_doc": 8}, 400, "max_tokens_per_doc: 8, must be at least"),
    "unknown": ({**VALID, "texts": ["a"]}, 400, "'texts' is not a field of this request"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(post: Poster, name: str) -> None:
    body, status, message = REFUSED[name]
    found_status, found = post("/v2/rerank", body)
    assert found_status == status and message in found["message"] and found["detail"] == found["message"], found


def test_calls_are_counted(post: Poster, server: Server) -> None:
    post.found("/v2/rerank", **VALID)
    assert server.metrics()["fastqps_requests_total{OK,rerank,ranker}"] >= 1
