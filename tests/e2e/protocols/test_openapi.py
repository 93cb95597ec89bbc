"""The OpenAPI document: it is valid, it describes every route, and real answers are as it says. Each is counted."""

from __future__ import annotations

import re
import urllib.request
from typing import Any

import jsonschema
import pytest
from apis import Api
from openapi_spec_validator import validate
from serving import PATIENCE_S

from fastqps.frontdoor.openapi import cohere, document, ollama, open_inference, openai, rerank, text_embeddings, vllm

OPERATIONS = openai.OPERATIONS | rerank.OPERATIONS | cohere.OPERATIONS | text_embeddings.OPERATIONS
OPERATIONS |= open_inference.OPERATIONS | vllm.OPERATIONS | ollama.OPERATIONS
# By models here; tests/e2e/requests/test_sparse.py, test_embed_multi.py, test_entities.py, and
# tests/e2e/generation/test_chat.py do.
UNSERVED = {"/embed_sparse": 424, "/embed_all": 424, "/entities": 424}
UNSERVED |= {root + "/v1/chat/completions": 400 for root in openai.ROOTS}
UNSERVED |= {path: 400 for _, path in OPERATIONS if "/generate" in path}  # minilm's; test_open_inference.py has others
TENSOR = {"name": "text", "shape": [1], "datatype": "BYTES", "data": ["a"]}


@pytest.fixture(scope="module")
def served(api: Api) -> Any:
    status, found = api.post.get("/openapi.json")
    assert status == 200
    return found


def schema(body: dict[str, Any]) -> Any:
    return body["content"]["application/json"]["schema"]


def path_of(pattern: str) -> str:
    parameters = {"model": "minilm", "version": "", "region": "a"}
    return re.sub(r"{(\w+)}", lambda name: parameters[name[1]], pattern)


def test_it_is_valid(served: Any) -> None:
    validate(served)


def test_it_has_every_route_and_no_other(served: Any) -> None:
    """A route without a description would be a ``KeyError`` of the first request, and so no document."""
    described = {(verb.upper(), path) for path, rows in served["paths"].items() for verb in rows}
    others = (*document.HEALTH_PATHS, document.PATH, document.PAGE_PATH, document.METRICS_PATH, document.VERSION_PATH)
    assert described == {*OPERATIONS, *(("GET", path) for path in others)}


def test_what_is_not_served_has_no_answer(served: Any) -> None:
    responses = {path: row["responses"] for path, rows in served["paths"].items() for row in rows.values()}
    unserved = {path for path, statuses in responses.items() if "200" not in statuses}
    assert unserved == {path for routes in open_inference.UNSERVED.values() for _, path in routes}


def test_its_page_needs_no_network(api: Api) -> None:
    with urllib.request.urlopen(f"http://{api.server.http}{document.PAGE_PATH}", timeout=PATIENCE_S) as response:
        page = response.read().decode()
        assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    assert 'ask("openapi.json")' in page and "//" not in page


def test_a_route_that_nothing_describes_is_an_error() -> None:
    with pytest.raises(KeyError, match="/v3"):
        document.document([("GET", "/v3")])


@pytest.mark.parametrize(("verb", "pattern"), OPERATIONS)
def test_examples_are_answered_as_the_document_says(api: Api, served: Any, verb: str, pattern: str) -> None:
    row = served["paths"][pattern][verb.lower()]
    path = path_of(pattern)
    if "/versions/" in pattern:
        path = path.replace("/versions/", "/versions/" + api.post.get("/v2/models/minilm")[1]["versions"][0])
    if verb == "POST":
        body = row.get("requestBody", {}).get("content", {}).get("application/json", {})
        example = body.get("example", {})
        if body:
            jsonschema.validate(example, body["schema"], jsonschema.Draft202012Validator)
        status, answer = api.post(path, example)
    else:
        status, answer = api.post.get(path)
    assert str(status) in row["responses"], answer
    named = re.match(r"(\d{3}): ", row["summary"])  # a route that is refused
    assert status == (int(named[1]) if named else UNSERVED.get(pattern, 200)), answer
    jsonschema.validate(answer, schema(row["responses"][str(status)]), jsonschema.Draft202012Validator)


@pytest.mark.parametrize(
    ("method", "model", "path", "fields"),
    [
        ("embeddings", "minilm", "/v1/embeddings", {"input": "a"}),
        ("tei.Embed", "minilm", "/embed", {"inputs": "a"}),
        ("tei.Rerank", "ranker", "/rerank", {"query": "a", "texts": ["b"]}),
        ("rerank", "ranker", "/v2/rerank", {"query": "a", "documents": ["b"]}),
        ("rerank", "ranker", "/rerank", {"query": "a", "documents": ["b"]}),
        ("classify", "labelled", "/classify", {"input": "a"}),
        ("pooling", "minilm", "/pooling", {"input": "a"}),
        ("score", "ranker", "/score", {"queries": "a", "documents": "b"}),
        ("ModelInfer", "minilm", "/v2/models/minilm/infer", {"inputs": [TENSOR]}),
    ],
)
def test_calls_are_counted_by_protocol(api: Api, method: str, model: str, path: str, fields: dict[str, Any]) -> None:
    name = f"fastqps_requests_total{{OK,{method},{model}}}"
    before = api.server.metrics().get(name, 0)
    api.post.found(path, **fields)
    assert api.server.metrics()[name] == before + 1


@pytest.mark.parametrize(
    ("pattern", "body", "status"),
    [
        ("/v1/embeddings", {"input": "a", "model": "none"}, 404),
        ("/v1/embeddings", {"input": 1.5}, 400),
        ("/v1/completions", {"prompt": "a", "n": 0}, 400),
        ("/v2/rerank", {"query": "a", "documents": []}, 400),
        ("/classify", {"input": "a", "model": "none"}, 404),
        ("/embed", {"inputs": []}, 400),
        ("/embed", {"inputs": "a", "dimensions": "b"}, 422),
        ("/predict", {"inputs": "a", "model": "minilm"}, 424),
        ("/v2/models/{model}/infer", {"inputs": [{"name": "text"}]}, 400),
    ],
)
def test_refusals_are_as_the_document_says(
    api: Api, served: Any, pattern: str, body: dict[str, Any], status: int
) -> None:
    """Also of requests that its schemas refuse."""
    row = served["paths"][pattern]["post"]
    found, answer = api.post(path_of(pattern), body)
    assert found == status, answer
    jsonschema.validate(answer, schema(row["responses"][str(status)]), jsonschema.Draft202012Validator)
