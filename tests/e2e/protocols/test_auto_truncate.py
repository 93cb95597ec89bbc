"""Inputs that are too long: cut or refused, by the protocol, ``--auto-truncate`` and the request's own field."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from apis import Api, reaching
from serving import Server

import fastqps

LONG, IDS = "a " * 600, [5] * 600
TENSOR = {"name": "text", "datatype": "BYTES", "shape": [1], "data": [LONG]}
PAIR = {"query": "a", "documents": [LONG]}


Ask = Callable[[Api, dict[str, Any]], str]  # the refusal of a request with such a field, or ""


def predict(item: str | list[int] | tuple[str, str], **options: Any) -> Ask:
    def ask(api: Api, field: dict[str, Any]) -> str:
        try:
            found = api.client.predict(item, **options, **field)
        except fastqps.InvalidArgument as error:
            return error.message
        assert found.usage and found.usage.truncated
        return ""

    return ask


def post(path: str, **fields: Any) -> Ask:
    def ask(api: Api, field: dict[str, Any]) -> str:
        status, found = api.post(path, **fields, **field)
        assert status in (200, 400, 422), found
        return "" if status == 200 else str(found)

    return ask


def post_with(name: str, path: str, **fields: Any) -> Ask:
    """The field is in an object of this name."""
    return lambda api, field: post(path, **fields, **{name: field})(api, {})


def call(path: str, **fields: Any) -> Ask:
    def ask(api: Api, field: dict[str, Any]) -> str:
        try:
            api.call(path, **fields, **field)
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
            return str(error.details())
        return ""

    return ask


# name: (whether the API cuts by itself, request)
PROTOCOLS: dict[str, tuple[bool, Ask]] = {
    "Predict, text": (False, predict(LONG)),
    "Predict, token ids": (False, predict(IDS)),
    "Predict, pair": (False, predict((LONG, "a"), model="ranker")),
    "Predict, generation": (False, predict(IDS, model="grammar", max_tokens=1)),
    "Open Inference": (False, post_with("parameters", "/v2/models/minilm/infer", inputs=[TENSOR])),
    "OpenAI, embeddings": (False, post("/v1/embeddings", model="minilm", input=LONG)),
    "OpenAI, completions": (False, post("/v1/completions", model="grammar", prompt=IDS, max_tokens=1)),
    "TEI, gRPC": (False, call("tei.v1.Embed/Embed", inputs=LONG)),
    "TEI, /embed": (True, post("/embed", inputs=LONG)),
    "TEI, /embed, token ids": (True, post("/embed", inputs=IDS)),
    "TEI, /": (True, post("/", inputs=LONG)),
    "TEI, /similarity": (
        True, post_with("parameters", "/similarity", inputs={"source_sentence": "a", "sentences": [LONG]}),
    ),
    "rerank, 1": (True, post("/v1/rerank", model="ranker", **PAIR)),
    "rerank, 2": (True, post("/v2/rerank", model="ranker", **PAIR)),
}  # fmt: skip


@pytest.fixture(scope="module", params=["auto", "on", "off"])
def setting(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def api(request: pytest.FixtureRequest, setting: str, run_all: Callable[..., Server]) -> Iterator[Api]:
    """On the null device, except the server that all tests have, whose setting is the default."""
    if setting == "auto":
        yield request.getfixturevalue("every_model")
    else:
        yield from reaching(run_all(f"--auto-truncate={setting}"))


@pytest.mark.parametrize("field", [{}, {"truncate": True}, {"truncate": False}], ids=["not given", "true", "false"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_long_inputs(api: Api, setting: str, protocol: str, field: dict[str, bool]) -> None:
    by_api, ask = PROTOCOLS[protocol]
    cut = field.get("truncate", {"auto": by_api, "on": True, "off": False}[setting])
    refusal = ask(api, field)
    assert (not refusal) == cut, refusal
    assert cut or "at most" in refusal


def test_info(api: Api, setting: str) -> None:
    assert api.post.get("/info")[1]["auto_truncate"] == (setting != "off")


def test_a_side_that_the_model_does_not_cut(api: Api, setting: str) -> None:
    """It matters only where an input may be cut."""
    status, found = api.post("/embed", inputs="a", truncation_direction="Left")
    assert status == (200 if setting == "off" else 422), found
