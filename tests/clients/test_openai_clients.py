"""openai, LangChain, LlamaIndex and huggingface_hub: OpenAI's API, and TEI's routes as frameworks call them."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from answers import check_near, check_one, generated
from questions import IDS, TEXTS

import fastqps

Run = Callable[[str], Any]
MODELS = ["minilm", "grammar", "ranker"]


def test_openai(run: Run, client: fastqps.Client) -> None:
    found = run("openai_sync")
    assert found["models"] == MODELS
    check_one([*found["one"], np.frombuffer(base64.b64decode(found["raw"]), np.float32)], client)
    check_one([found["short"]], client, dimensions=64)
    check_one([found["ids"]], client, IDS)
    check_near(found["many"], TEXTS, client)
    assert found["generated"] == generated(client) and found["reason"] == "stop"
    assert len(found["pieces"]) > 2 and "".join(found["pieces"]) == found["generated"]
    assert found["tokens"][0] == found["tokens"][1] > 2
    assert found["refused"] == "model_not_found" and "n: " in found["bad"]


def test_openai_async(run: Run, client: fastqps.Client) -> None:
    found = run("openai_async")
    assert found["models"] == MODELS
    check_near(found["many"], TEXTS, client)
    assert found["generated"] == generated(client)
    assert len(found["pieces"]) > 2 and "".join(found["pieces"]) == found["generated"]


@pytest.fixture(scope="module")
def frameworks(server: Any) -> Any:
    from questions import run_script

    return run_script("frameworks", server)


@pytest.mark.parametrize("name", ["langchain", "llama_openai", "llama_tei", "hub"])
def test_embeddings_of_frameworks(frameworks: Any, client: fastqps.Client, name: str) -> None:
    check_one(frameworks[name]["one"], client)
    check_near(frameworks[name]["many"], TEXTS, client)


def test_langchain_generates(frameworks: Any, client: fastqps.Client) -> None:
    found = frameworks["langchain"]
    assert found["generated"] == generated(client)
    assert len(found["pieces"]) > 2 and "".join(found["pieces"]) == found["generated"]
