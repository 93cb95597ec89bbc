"""LlamaIndex, Haystack and LiteLLM: rankers, by TEI's API over HTTP and gRPC, and by Cohere's and Jina's."""

import os
from typing import Any

import litellm
from given import GIVEN, answer
from haystack import Document
from haystack_integrations.components.rankers.cohere import CohereRanker
from haystack_integrations.components.rankers.huggingface_api import HuggingFaceTEIRanker
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.postprocessor.tei_rerank import TextEmbeddingInference

URL = f"http://{GIVEN.http}"
os.environ["COHERE_API_KEY"] = "any"


def haystack(ranker: Any) -> list[Any]:
    documents = [Document(content=text) for text in GIVEN.documents]
    found = ranker.run(GIVEN.query, documents)["documents"]
    return [[GIVEN.documents.index(document.content), document.score] for document in found]


def llama_index() -> list[Any]:
    nodes = [NodeWithScore(node=TextNode(text=text), score=0.0) for text in GIVEN.documents]
    found = TextEmbeddingInference(base_url=URL).postprocess_nodes(nodes, query_bundle=QueryBundle(GIVEN.query))
    return [[GIVEN.documents.index(node.text), node.score] for node in found]


def lite(provider: str, address: str, **options: Any) -> list[Any]:
    fields = {"query": GIVEN.query, "documents": GIVEN.documents, "api_base": address, "api_key": "any"}
    found = litellm.rerank(model=f"{provider}/ranker", **fields, **options)
    return [[result["index"], result["relevance_score"]] for result in found.results]


answer(
    llama_index=llama_index(),
    haystack_tei=haystack(HuggingFaceTEIRanker(url=URL)),
    haystack_tei_grpc=haystack(HuggingFaceTEIRanker(url=GIVEN.grpc, use_grpc=True)),
    haystack_cohere=haystack(CohereRanker(model="ranker", api_base_url=URL)),
    litellm_cohere=lite("cohere", URL),
    litellm_jina=lite("jina_ai", URL),
    litellm_vllm=lite("hosted_vllm", f"{URL}/v1"),
    litellm_vllm_rerank=lite("hosted_vllm", f"{URL}/v1/rerank"),  # it asks /rerank
    litellm_huggingface=lite("huggingface", URL),
    # Of a document it reads infinity's form, a string; Cohere's and Jina's is an object.
    litellm_infinity=lite("infinity", f"{URL}/v1", return_documents=False),
)
