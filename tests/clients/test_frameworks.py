"""LangChain, LlamaIndex, Haystack, LiteLLM, huggingface_hub and ollama, each by the served API that it speaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from answers import check, check_ranks, check_texts, generated, logits
from questions import run_script
from serving import Server

import fastqps

Run = Callable[[str], Any]
EMBEDDERS = {
    "frameworks": ["langchain", "langchain_tei", "llama_openai", "llama_tei", "hub"],
    "haystack_embedders": ["openai", "tei", "tei_grpc", "cohere"],
    "litellm_calls": ["openai", "hosted_vllm", "infinity", "jina_ai", "voyage", "cohere", "huggingface"],
    "ollama_calls": ["embed", "embeddings"],
}
# TEI's default, Cohere's and Ollama's. Haystack asks TEI not to.
NORMALIZED = {"langchain_tei", "llama_tei", "hub", "cohere", "huggingface", "embed"}
RANKERS = ["llama_index", "haystack_tei", "haystack_tei_grpc", "haystack_cohere"]
RANKERS += [f"litellm_{name}" for name in ("cohere", "jina", "vllm", "vllm_rerank", "huggingface", "infinity")]


@pytest.fixture(scope="module")
def found(server: Server) -> Any:
    return {script: run_script(script, server) for script in EMBEDDERS}


@pytest.mark.parametrize(("script", "name"), [(script, name) for script in EMBEDDERS for name in EMBEDDERS[script]])
def test_embeddings(found: Any, client: fastqps.Client, script: str, name: str) -> None:
    options = {"normalize": True} if name in NORMALIZED else {}
    check(found[script][name]["one"], client, **options)
    check_texts(found[script][name]["many"], client, **options)


@pytest.mark.parametrize(("script", "name"), [("frameworks", "langchain"), ("litellm_calls", None)])
def test_completions(found: Any, client: fastqps.Client, script: str, name: str | None) -> None:
    completed = found[script][name] if name else found[script]
    assert completed["generated"] == generated(client)
    assert len(completed["pieces"]) > 2 and "".join(completed["pieces"]) == completed["generated"]


@pytest.fixture(scope="module")
def ranks(ranking_server: Server) -> Any:
    return run_script("framework_ranks", ranking_server)


@pytest.mark.parametrize("name", RANKERS)
def test_ranks(ranks: Any, ranking_server: Server, name: str) -> None:
    check_ranks(ranks[name], [float(1 / (1 + np.exp(-logit))) for logit in logits(ranking_server.address)])
