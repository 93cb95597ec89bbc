"""vLLM's API of models that do not generate, in the shapes of its examples: answers against the server's ``Predict``.

Its models are an embedder, a generator, a classifier of three labels and a cross-encoder, in this order.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest
from apis import Api
from test_text_embeddings import MINILM_IDS, TEXTS, sigmoid

CLOSE = 1e-5
LONG = "b " * 300


def answered(api: Api, path: str, name: str, **fields: Any) -> list[dict[str, Any]]:
    """The elements of an answer's data."""
    found = api.post.found(path, **fields)
    assert found["id"].startswith(f"{name}-") and found["object"] == "list" and found["created"] > 1e9
    assert found["usage"]["prompt_tokens"] == found["usage"]["total_tokens"] > 0
    data = found["data"]
    assert isinstance(data, list) and [each["index"] for each in data] == [*range(len(data))]
    return data


@pytest.mark.parametrize("activate", [None, True, False])
@pytest.mark.parametrize("given", ["vLLM is great!", TEXTS, [MINILM_IDS, "a"]], ids=["text", "texts", "ids"])
def test_classify(api: Api, given: Any, activate: bool | None) -> None:
    fields: dict[str, Any] = {"model": "labelled", "input": given, "use_activation": activate}
    data = answered(api, "/classify", "classify", **fields)
    for each, item in zip(data, [given] if isinstance(given, str) else given, strict=True):
        labels = api.client.predict(item, model="labelled", raw_scores=activate is False).labels
        assert (each["label"], each["num_classes"]) == (labels[0].name, 3)
        in_order = [label.score for label in sorted(labels, key=lambda label: label.index)]
        assert each["probs"] == pytest.approx(in_order, abs=CLOSE)
    pooled = answered(api, "/pooling", "pool", **fields, task="classify")
    assert [each["data"] for each in pooled] == [each["probs"] for each in data]


@pytest.mark.parametrize("options", [{}, {"normalize": False}, {"dimensions": 64}], ids=str)
def test_pooling(api: Api, options: dict[str, Any]) -> None:
    fields = {"model": "minilm", "input": [*TEXTS, MINILM_IDS]}
    asked = {{"normalize": "use_activation"}.get(name, name): value for name, value in options.items()}
    expected = np.stack([api.client.predict(item, **options).embedding for item in fields["input"]])
    data = answered(api, "/pooling", "pool", **fields, **asked)
    assert {each["object"] for each in data} == {"pooling"}
    np.testing.assert_allclose(np.array([each["data"] for each in data], np.float32), expected, atol=CLOSE, rtol=0)
    encoded = answered(api, "/pooling", "pool", **fields, **asked, encoding_format="base64", task="embed")
    decoded = [np.frombuffer(base64.b64decode(each["data"]), "<f4") for each in encoded]
    np.testing.assert_allclose(np.stack(decoded), expected, atol=CLOSE, rtol=0)


QUERIES, DOCUMENTS = ["What is the capital of Brazil?", "What is food?"], ["Brasilia.", ""]
PAIRS: dict[str, tuple[dict[str, Any], list[tuple[str, str]]]] = {
    "1:1": ({"text_1": QUERIES[0], "text_2": "a"}, [(QUERIES[0], "a")]),
    "1:N": ({"queries": QUERIES[0], "documents": DOCUMENTS}, [(QUERIES[0], text) for text in DOCUMENTS]),
    "N:N": ({"data_1": QUERIES, "data_2": DOCUMENTS}, [*zip(QUERIES, DOCUMENTS, strict=True)]),
}


@pytest.mark.parametrize("path", ["/score", "/v1/score"])
@pytest.mark.parametrize("form", PAIRS)
def test_score(api: Api, path: str, form: str) -> None:
    fields, pairs = PAIRS[form]
    logits = [api.client.predict(pair, model="ranker", raw_scores=True).labels[0].score for pair in pairs]
    vectors = [[api.client.predict(text).embedding for text in pair] for pair in pairs]
    for options, expected in (
        ({"model": "ranker"}, [sigmoid(logit) for logit in logits]),
        ({"use_activation": False}, logits),  # without a name the model that ranks is meant
        ({"model": "minilm"}, [float(first @ second) for first, second in vectors]),
    ):
        data = answered(api, path, "score", **fields, **options)
        assert [each["score"] for each in data] == pytest.approx(expected, abs=CLOSE)


def test_long_texts_are_refused_or_cut(api: Api) -> None:
    for path, fields in (
        ("/classify", {"model": "labelled", "input": LONG}),
        ("/pooling", {"input": LONG}),
        ("/score", {"queries": "a", "documents": LONG}),
        ("/score", {"queries": LONG, "documents": "a", "model": "minilm"}),
    ):
        status, said = api.post(path, fields)
        assert (status, said["error"]["type"]) == (400, "invalid_request_error")
        assert "tokens, at most" in said["error"]["message"]
        api.post.found(path, **fields, truncate_prompt_tokens=-1)


REFUSED: dict[str, tuple[str, dict[str, Any], int, str | None, str]] = {
    "not served": ("/classify", {"model": "none", "input": "a"}, 404, "model", "model: 'none' is not served here"),
    "no classifier": ("/classify", {"model": "minilm", "input": "a"}, 400, None, "these can: 'labelled', 'ranker'"),
    "generates": ("/pooling", {"model": "grammar", "input": "a"}, 400, None, "the model 'grammar' generates text"),
    "another task": ("/pooling", {"input": "a", "task": "classify", "model": "minilm"}, 400, None, "no classifier"),
    "3 labels": ("/score", {"model": "labelled", "queries": "a", "documents": "b"}, 400, None, "it has 3 labels"),
    "unknown": ("/classify", {"input": "a", "top_n": 1}, 400, "top_n", "is not a field of this request"),
    "too large": ("/pooling", {"input": "a", "dimensions": 385}, 400, "dimensions", "dimensions: 385, at most 384"),
    "left": (
        "/classify",
        {"input": LONG, "truncation_side": "left", "truncate_prompt_tokens": -1},
        400,
        "truncation_side",
        "truncation_side: left, but the model 'labelled' cuts on the right",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(api: Api, case: str) -> None:
    path, fields, status, field, said = REFUSED[case]
    found, answer = api.post(path, fields)
    error = answer["error"]
    assert (found, error["param"]) == (status, field), answer
    assert said.replace("no classifier", "is not a classifier model") in error["message"]


def test_a_field_that_changes_nothing_is_named(api: Api) -> None:
    response, _ = api.post.send("POST", "/pooling", b'{"input": "a", "store": true, "request_id": "mine"}')
    assert (response.status, response.getheader("Fastqps-Ignored")) == (200, "store")
    assert api.post.found("/pooling", input="a", request_id="mine")["id"] == "pool-mine"
