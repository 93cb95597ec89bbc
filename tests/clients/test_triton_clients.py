"""tritonclient and kserve's clients: the Open Inference Protocol over gRPC and HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from answers import check, check_texts, generated
from questions import IDS, PROMPT

import fastqps

Run = Callable[[str], Any]
MODELS = ["wordllama", "grammar"]


def check_calls(found: Any, client: fastqps.Client) -> None:
    """What the blocking clients of both transports found."""
    assert found["ready"] == [True] * 3 and not found["unready"]
    assert found["outputs"] == ["embedding"] and found["statistics"] == "wordllama"
    assert [int(size) for size in found["dims"]] == [client.predict("").embedding.size]
    assert found["index"] == MODELS
    check(found["one"], client)
    check(found["ids"], client, IDS)
    check_texts(found["many"], client)
    assert found["generated"] == generated(client)
    made = client.generate(PROMPT, model="grammar", max_tokens=8, temperature=1.0, seed=3, n=2, top_logprobs=2)
    choices = [made, *made.other_choices]
    assert found["choices"] == [[each.text for each in choices]]
    scored = found["scored"]
    assert scored["token_id"] == [id for each in choices for id in each.token_ids]
    assert scored["logprob"] == pytest.approx([value for each in choices for value in each.logprobs or ()], abs=1e-5)
    assert scored["offsets"] == [0, len(made.token_ids), len(scored["token_id"])]
    assert scored["top_token_id"] == [[id for id, _ in row] for each in choices for row in each.top_logprobs or ()]
    assert "none" in found["refused"]


def test_tritonclient_grpc(run: Run, client: fastqps.Client) -> None:
    found = run("triton_grpc")
    check_calls(found, client)
    assert found["id"] == "one" and found["refused"].startswith("StatusCode.NOT_FOUND")
    assert len(found["streamed"]) == 20
    check(found["streamed"], client)
    assert len(found["pieces"]) > 2 and "".join(found["pieces"]) == generated(client)


def test_tritonclient_grpc_aio(run: Run, client: fastqps.Client) -> None:
    found = run("triton_grpc_aio")
    assert found["ready"] == [True] * 2 and found["id"] == "one"
    check(found["one"], client)
    check_texts(found["many"], client)
    assert len(found["streamed"]) == 5
    check(found["streamed"], client)


def test_tritonclient_http(run: Run, client: fastqps.Client) -> None:
    found = run("triton_http")
    check_calls(found, client)
    assert len(found["one"]) == 18 and len(found["concurrent"]) == 8
    check(found["concurrent"], client)


def test_tritonclient_http_aio(run: Run, client: fastqps.Client) -> None:
    found = run("triton_http_aio")
    assert found["ready"] == [True] * 2 and found["dims"] == [client.predict("").embedding.size]
    check(found["one"], client)


def test_kserve(run: Run, client: fastqps.Client) -> None:
    found = run("kserve_clients")
    assert found["grpc_ready"] == [True] * 3 and found["rest_ready"] == [True] * 3
    assert found["ids"] == ["one"] * 4
    check(found["one"], client)
    for many in found["many"]:
        check_texts(many, client)
