"""Requests of clients that do not run here, as their own sources make them: the answer has what the client reads.

A row is what a client sends whose user has set an address, a model and a key. ``source`` says where that is written:
the project, its version or commit, and the file. tests/clients runs the clients that install.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from apis import Api

TEXTS = ["A man is eating food.", "x"]
QUERY = "what is food?"
KEY = {"Authorization": "Bearer any"}
Found = dict[int, Any]  # vectors or scores, by the number of their text


class Request(NamedTuple):
    source: str
    path: str
    body: dict[str, Any]
    read: Callable[[Any], Found]
    headers: dict[str, str] = KEY


def openai(found: Any) -> Found:
    assert found["object"] == "list" and found["model"] == "minilm"
    assert 0 < found["usage"]["prompt_tokens"] == found["usage"]["total_tokens"]
    assert {each["object"] for each in found["data"]} == {"embedding"}
    return {each["index"]: each["embedding"] for each in found["data"]}


def openai_base64(found: Any) -> Found:
    return {i: np.frombuffer(base64.b64decode(each), np.float32) for i, each in openai(found).items()}


def tei(found: Any) -> Found:
    return dict(enumerate(found))


def tei_ranks(found: Any) -> Found:
    assert [each["score"] for each in found] == sorted((each["score"] for each in found), reverse=True)
    return {each["index"]: each["score"] for each in found}


def cohere(found: Any) -> Found:
    assert isinstance(found["id"], str) and found["meta"]["billed_units"]["input_tokens"] > 0
    floats = found["embeddings"]["float"] if isinstance(found["embeddings"], dict) else found["embeddings"]
    return dict(enumerate(floats))


def cohere_int8(found: Any) -> Found:
    return {i: np.array(each) / 127 for i, each in enumerate(found["embeddings"]["int8"])}


def ollama(found: Any) -> Found:
    assert found["model"] == "minilm" and found["prompt_eval_count"] > 0
    return dict(enumerate(found["embeddings"]))


def results(found: Any) -> Found:
    """Of Cohere's, Jina's and vLLM's rerank."""
    assert isinstance(found["id"], str) and found["model"] == "ranker"
    assert found["meta"]["api_version"]["version"] in ("1", "2") and found["usage"]["total_tokens"] > 0
    return {each["index"]: each["relevance_score"] for each in found["results"]}


LANGCHAIN_COHERE = "langchain-cohere 0.6.0, cohere 5.21.1"
LLAMA_INDEX = "llama-index-embeddings-openai-like 0.4.0, openai 3.57.0"
PYMILVUS = "pymilvus-model 0.3.4"
SPRING = (
    "Spring AI 2.0.1, models/spring-ai-openai/…/OpenAiEmbeddingOptions.java; openai-java 4.49, EmbeddingCreateParams.kt"
)
SPRING_1 = "Spring AI 1.1.8, models/spring-ai-openai/…/api/OpenAiApi.java"
OPEN_WEBUI = "Open WebUI 0013f5c1, backend/open_webui/retrieval/utils.py"
OPEN_WEBUI_RERANK = "Open WebUI 0668cb7f, backend/open_webui/retrieval/models/external.py"
MILVUS_COHERE = "Milvus 19f996ec, internal/util/function/models/cohere/cohere_client.go"
MILVUS_OPENAI = "Milvus 1bd210a8, internal/util/function/models/openai/openai_client.go"
MILVUS_TEI = "Milvus 059bfd6a, internal/util/function/models/tei/tei.go"
MILVUS_VLLM = "Milvus 25ec72ea, internal/util/function/models/vllm/vllm_client.go"
WEAVIATE = "Weaviate adcffc54"
OPENSEARCH = "ML Commons of OpenSearch 950f0560, docs"
PGAI = "pgai 3e054856, projects/pgai/pgai/vectorizer/embedders/openai.py"
PGAI_OLLAMA = "pgai 3e054856, projects/pgai/pgai/vectorizer/embedders/ollama.py"

USER = {  # Open WebUI's ENABLE_FORWARD_USER_INFO_HEADERS
    "X-OpenWebUI-User-Name": "Zo%C3%AB",
    "X-OpenWebUI-User-Id": "1",
    "X-OpenWebUI-User-Email": "a@example.com",
    "X-OpenWebUI-User-Role": "user",
}
STAINLESS = {"X-Stainless-Lang": "java", "X-Stainless-Runtime": "JRE", "X-Stainless-Retry-Count": "0"}
FROM_WEAVIATE = {"Request-Source": "unspecified:weaviate"}
INPUT = {"model": "minilm", "input": TEXTS}
COHERE_TEXTS = {"model": "minilm", "texts": TEXTS, "input_type": "search_document"}
TEI_TEXTS = {"query": QUERY, "texts": TEXTS}
DOCUMENTS = {"model": "ranker", "query": QUERY, "documents": TEXTS}

EMBEDDING = [
    Request(SPRING, "/v1/embeddings", {**INPUT, "encoding_format": "base64"}, openai_base64, KEY | STAINLESS),
    Request(SPRING_1, "/v1/embeddings", INPUT, openai),
    Request(
        "voyageai 0.5.0",
        "/v1/embeddings",
        {**INPUT, "input_type": None, "truncation": True, "output_dtype": None, "output_dimension": None}
        | {"encoding_format": "base64"},
        openai_base64,
    ),
    Request(LLAMA_INDEX, "/v1/embeddings", {**INPUT, "encoding_format": "base64"}, openai_base64),
    Request(LANGCHAIN_COHERE, "/v1/embed", {**COHERE_TEXTS, "embedding_types": ["float"], "truncate": None}, cohere),
    Request(OPEN_WEBUI, "/v1/embeddings", INPUT, openai, KEY | USER),
    Request(PYMILVUS, "/v1/embeddings", {"input": TEXTS}, openai, {}),
    Request(MILVUS_OPENAI, "/v1/embeddings", {**INPUT, "encoding_format": "float"}, openai),
    Request(MILVUS_TEI, "/embed", {"inputs": TEXTS}, tei),
    Request(MILVUS_TEI, "/embed", {"inputs": TEXTS, "truncate": True, "truncation_direction": "Right"}, tei),
    Request(
        MILVUS_COHERE,
        "/v2/embed",
        {**COHERE_TEXTS, "embedding_types": ["float"], "truncate": "END"},
        cohere,
        {"Authorization": "bearer any", "accept": "application/json"},
    ),
    Request(MILVUS_COHERE, "/v2/embed", {**COHERE_TEXTS, "embedding_types": ["int8"]}, cohere_int8),
    Request(
        f"{WEAVIATE}, usecases/modulecomponents/clients/openai/openai.go",
        "/v1/embeddings",
        {**INPUT, "dimensions": 384},
        openai,
        KEY | {"OpenAI-Organization": "org"},
    ),
    Request(
        "Weaviate 0543f125, usecases/modulecomponents/clients/jinaai/jinaai.go",
        "/v1/embeddings",
        {**INPUT, "embedding_type": "float", "normalized": True, "task": "retrieval.passage", "dimensions": 384},
        openai,
    ),
    Request(
        "Weaviate 0a1fa502, usecases/modulecomponents/clients/voyageai/voyageai.go",
        "/v1/embeddings",
        {**INPUT, "truncation": True, "input_type": "document"},
        openai,
    ),
    Request(
        f"{WEAVIATE}, usecases/modulecomponents/clients/cohere/cohere.go",
        "/v2/embed",
        {**COHERE_TEXTS, "embedding_types": ["float"], "truncate": "END"},
        cohere,
        KEY | FROM_WEAVIATE,
    ),
    Request(
        f"{WEAVIATE}, modules/text2vec-huggingface/clients/huggingface.go",
        "/embed",
        {"inputs": TEXTS, "options": {"wait_for_model": True}},
        tei,
    ),
    Request(
        f"{OPENSEARCH}/remote_inference_blueprints/openai_connector_embedding_blueprint.md",
        "/v1/embeddings",
        INPUT,
        openai,
    ),
    Request(
        f"{OPENSEARCH}/remote_inference_blueprints/cohere_connector_embedding_blueprint.md",
        "/v1/embed",
        {**COHERE_TEXTS, "truncate": "END"},
        cohere,
        KEY | {"Request-Source": "unspecified:opensearch"},
    ),
    Request(
        f"{OPENSEARCH}/remote_inference_blueprints/cohere_connector_embedding_blueprint.md",
        "/v2/embed",
        {**COHERE_TEXTS, "truncate": "END", "embedding_types": ["float"]},
        cohere,
    ),
    Request(PGAI, "/v1/embeddings", {**INPUT, "encoding_format": "float"}, openai),
    Request(PGAI_OLLAMA, "/api/embed", INPUT, ollama, {}),
    Request(OPEN_WEBUI, "/api/embed", INPUT, ollama, KEY | USER),
    Request(f"{WEAVIATE}, modules/text2vec-ollama/clients/ollama.go", "/api/embed", INPUT, ollama, {}),
]
RANKING = [
    Request(LANGCHAIN_COHERE, "/v2/rerank", {**DOCUMENTS, "top_n": 3, "max_tokens_per_doc": None}, results),
    Request(OPEN_WEBUI_RERANK, "/v1/rerank", {**DOCUMENTS, "top_n": len(TEXTS)}, results, KEY | USER),
    Request(PYMILVUS, "/rerank", {**TEI_TEXTS, "return_text": True}, tei_ranks, {}),
    Request(MILVUS_TEI, "/rerank", {**TEI_TEXTS, "truncate": True}, tei_ranks),
    Request(MILVUS_COHERE, "/v2/rerank", DOCUMENTS, results),
    Request(MILVUS_VLLM, "/rerank", {"query": QUERY, "documents": TEXTS}, results),
    Request(
        f"{WEAVIATE}, modules/reranker-cohere/clients/ranker.go",
        "/v2/rerank",
        {**DOCUMENTS, "return_documents": False},
        results,
        KEY | FROM_WEAVIATE,
    ),
    Request(
        f"{OPENSEARCH}/tutorials/rerank/rerank_pipeline_with_Cohere_Rerank_model.md",
        "/v1/rerank",
        {**DOCUMENTS, "top_n": 100},
        results,
    ),
    Request(
        f"{OPENSEARCH}/tutorials/rerank/rerank_pipeline_with_bge-rerank-m3-v2_model_deployed_on_Sagemaker.md",
        "/rerank",
        TEI_TEXTS,
        tei_ranks,
    ),
]


def named(request: Any) -> str:
    return f"{request[0].split(',')[0]} {request[1]}"


def answered(api: Api, request: Request) -> Found:
    headers = {"Content-Type": "application/json", **request.headers}
    response, content = api.post.send("POST", request.path, json.dumps(request.body).encode(), **headers)
    assert response.status == 200, content
    found = request.read(json.loads(content))
    assert sorted(found) == [0, 1]
    return found


@pytest.mark.parametrize("request_", EMBEDDING, ids=named)
def test_embeddings(api: Api, request_: Request) -> None:
    found = answered(api, request_)
    bound = 1 / 127 if request_.read is cohere_int8 else 1e-5
    for i, text in enumerate(TEXTS):
        assert np.abs(np.array(found[i]) - api.client.predict(text).embedding).max() <= bound


@pytest.mark.parametrize("request_", RANKING, ids=named)
def test_ranks(api: Api, request_: Request) -> None:
    found = answered(api, request_)
    for i, text in enumerate(TEXTS):
        logit = api.client.predict((QUERY, text), model="ranker", raw_scores=True).labels[0].score
        assert found[i] == pytest.approx(float(1 / (1 + np.exp(-logit))), abs=1e-5)


def test_guidellms_stream_says_the_usage_so_far(api: Api) -> None:
    """guidellm 0.8.1, backends/openai/request_handlers.py"""
    options = {"include_usage": True, "continuous_usage_stats": True}
    body = {"model": "grammar", "prompt": QUERY, "stream": True, "stream_options": options, "ignore_eos": True}
    response, content = api.post.send("POST", "/v1/completions", json.dumps({**body, "max_tokens": 9}).encode())
    assert response.status == 200, content
    events = content.decode().split("\n\n")[:-2]
    usages = [json.loads(event.removeprefix("data: "))["usage"] for event in events]
    made = [usage["completion_tokens"] for usage in usages]
    assert len(made) > 2 and made == sorted(made) and 0 < made[0] < made[-2] == made[-1] == 9
    assert {usage["total_tokens"] - usage["completion_tokens"] for usage in usages} == {usages[-1]["prompt_tokens"]}


def test_lm_evaluation_harness_scores_continuations(api: Api) -> None:
    """lm-evaluation-harness 0064c3a0, lm_eval/models/openai_completions.py: LocalCompletionsAPI, payload and reader."""
    contexts, requests = [2, 5, 1], [[5, 6, 7, 8], [9, 10, 11, 12, 13, 14], [3, 4]]
    body = {"prompt": requests, "model": "grammar", "max_tokens": 1, "logprobs": 1, "echo": True}
    status, found = api.post("/v1/completions", {**body, "temperature": 0, "seed": 1234})
    assert status == 200, found
    read = []
    for choice, context in zip(sorted(found["choices"], key=lambda each: each["index"]), contexts, strict=True):
        logprobs = choice["logprobs"]["token_logprobs"][context:-1]
        top = choice["logprobs"]["top_logprobs"][context:-1]
        greedy = all(own == max(each.values()) for own, each in zip(logprobs, top, strict=True))
        read.append((sum(logprobs), greedy))
    for (total, greedy), ids, context in zip(read, requests, contexts, strict=True):
        said = api.client.generate(ids, model="grammar", max_tokens=0, prompt_logprobs=1).prompt_logprobs
        assert total == pytest.approx(sum(said.logprobs[context - 1 :]), abs=1e-4)
        likeliest = [each[0][0] for each in said.top_logprobs[context - 1 :]]
        assert greedy == (likeliest == ids[context:])


class Refusal(NamedTuple):
    source: str
    path: str
    body: dict[str, Any]
    status: int
    message: str


# These clients need another setting, which docs/works-with.md names.
REFUSED = [
    Refusal(
        f"{WEAVIATE}, modules/reranker-transformers/clients/ranker.go",
        "/rerank",
        {"query": QUERY, "documents": TEXTS, "property": ""},
        400,
        "'property' is not a field",
    ),
    Refusal(
        f"{WEAVIATE}, usecases/modulecomponents/clients/transformers/transformers.go",
        "/vectors",
        {"text": "a", "dims": 0, "vector": None, "error": "", "config": {"task_type": "passage"}},
        404,
        "there is no route /vectors",
    ),
    # By default it sends the ids of OpenAI's tokenizer. Those that the vocabulary has not are found.
    Refusal("langchain-openai 1.7.4", "/v1/embeddings", {**INPUT, "input": [[32, 893, 100_256]]}, 400, "100256"),
]


@pytest.mark.parametrize("refusal", REFUSED, ids=named)
def test_what_is_refused_is_named(api: Api, refusal: Refusal) -> None:
    status, found = api.post(refusal.path, refusal.body)
    assert status == refusal.status and refusal.message in json.dumps(found), found
