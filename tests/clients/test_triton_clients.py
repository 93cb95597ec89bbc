"""tritonclient and kserve's clients: the Open Inference Protocol over gRPC and HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from answers import check_near, check_one, generated
from questions import IDS, TEXT, TEXTS

import fastqps

Run = Callable[[str], Any]
MODELS = ["minilm", "grammar", "ranker"]


def check_calls(found: Any, client: fastqps.Client) -> None:
    """What the blocking clients of both transports found."""
    assert found["ready"] == [True] * 3 and not found["unready"]
    assert found["outputs"] == ["embedding"] and found["statistics"] == "minilm"
    assert [int(size) for size in found["dims"]] == [384]
    assert found["index"] == MODELS
    check_one(found["one"], client)
    check_one(found["ids"], client, IDS)
    check_near(found["many"], TEXTS, client)
    assert found["generated"] == generated(client)
    assert "none" in found["refused"]


def test_tritonclient_grpc(run: Run, client: fastqps.Client) -> None:
    found = run("triton_grpc")
    check_calls(found, client)
    assert found["id"] == "one" and found["refused"].startswith("StatusCode.NOT_FOUND")
    assert len(found["streamed"]) == 20
    check_near(found["streamed"], [TEXT], client)
    assert len(found["pieces"]) > 2 and "".join(found["pieces"]) == generated(client)


def test_tritonclient_grpc_aio(run: Run, client: fastqps.Client) -> None:
    found = run("triton_grpc_aio")
    assert found["ready"] == [True] * 2 and found["id"] == "one"
    check_one(found["one"], client)
    check_near(found["many"], TEXTS, client)
    assert len(found["streamed"]) == 5
    check_near(found["streamed"], [TEXT], client)


def test_tritonclient_http(run: Run, client: fastqps.Client) -> None:
    found = run("triton_http")
    check_calls(found, client)
    assert len(found["one"]) == 18 and len(found["concurrent"]) == 8
    check_near(found["concurrent"], [TEXT], client)


def test_tritonclient_http_aio(run: Run, client: fastqps.Client) -> None:
    found = run("triton_http_aio")
    assert found["ready"] == [True] * 2 and found["dims"] == [384]
    check_one(found["one"], client)


def test_kserve(run: Run, client: fastqps.Client) -> None:
    found = run("kserve_clients")
    assert found["grpc_ready"] == [True] * 3 and found["rest_ready"] == [True] * 3
    assert found["ids"] == ["one"] * 4
    check_one(found["one"], client)
    for many in found["many"]:
        check_near(many, TEXTS, client)
