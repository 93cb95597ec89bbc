"""In a server of several models, a route without a model's name takes the first model that can do its task.

The server's models are an embedder, a generator, a classifier of three labels and a cross-encoder, in this order.
"""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from posting import Poster
from serving import Server

import fastqps
from fastqps.api.reflection import message_class

PAIR = {"query": "what is food?", "texts": ["A man is eating food.", "word"]}


def scores(found: Any) -> list[float]:
    return sorted(each["score"] for each in found)


@pytest.mark.parametrize("named", [False, True])
def test_the_first_model_that_can(post: Poster, client: fastqps.Client, named: bool) -> None:
    """``model`` in the body means that model, and without it the answer is the same here."""

    def found(path: str, model: str, **fields: Any) -> Any:
        return post.found(path, **fields, **({"model": model} if named else {}))

    (vector,) = found("/embed", "minilm", inputs="food")
    assert vector == pytest.approx(client.predict("food", model="minilm", normalize=True).embedding, abs=1e-6)
    labels = client.predict("food", model="labelled").labels
    assert len(labels) == 3
    assert scores(found("/predict", "labelled", inputs="food")) == pytest.approx(sorted(each.score for each in labels))
    ranked = [
        client.predict((PAIR["query"], text), model="ranker", raw_scores=True).labels[0].score for text in PAIR["texts"]
    ]
    assert scores(found("/rerank", "ranker", **PAIR, raw_scores=True)) == pytest.approx(sorted(ranked))
    cohere = found("/v1/rerank", "ranker", query=PAIR["query"], documents=PAIR["texts"])
    assert cohere["model"] == "ranker" and len(cohere["results"]) == 2


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/embed", {"model": "labelled", "inputs": "a"}, "'labelled' is not an embedding model"),
        ("/predict", {"model": "minilm", "inputs": "a"}, "these can: 'labelled', "),
        (
            "/rerank",
            {"model": "labelled", **PAIR},
            "it has 3 labels, and a re-ranker has 1; of those that are served, ",
        ),
        ("/rerank", {"model": "minilm", **PAIR}, "these can: 'ranker'"),
        ("/embed", {"model": "none", "inputs": "a"}, "'none' is not served here"),
    ],
)
def test_an_error_names_the_models_that_can(post: Poster, path: str, body: dict[str, Any], said: str) -> None:
    status, found = post(path, body)
    assert status in (404, 424) and said in found["error"], found


def test_the_same_over_grpc(server: Server, client: fastqps.Client) -> None:
    """Which has no names of models."""
    with grpc.insecure_channel(server.address) as channel:

        def call(method: str, kind: str, **fields: Any) -> Any:
            request, response = message_class(f"tei.v1.{kind}Request"), message_class(f"tei.v1.{kind}Response")
            return channel.unary_unary(f"/tei.v1.{method}", request.SerializeToString, response.FromString)(
                request(**fields), timeout=60
            )

        assert len(call("Embed/Embed", "Embed", inputs="food").embeddings) == 384
        assert len(call("Predict/Predict", "Predict", inputs="food").predictions) == 3
        assert len(call("Rerank/Rerank", "Rerank", **PAIR).ranks) == 2
