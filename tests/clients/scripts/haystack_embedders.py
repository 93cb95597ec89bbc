"""Haystack: embedders of texts and of documents, by OpenAI's API, by TEI's over HTTP and gRPC, and by Cohere's."""

import os
from typing import Any

from given import GIVEN, answer
from haystack import Document
from haystack.components.embedders import OpenAIDocumentEmbedder, OpenAITextEmbedder
from haystack_integrations.components.embedders.cohere import CohereDocumentEmbedder, CohereTextEmbedder
from haystack_integrations.components.embedders.huggingface_api import (
    HuggingFaceAPIDocumentEmbedder,
    HuggingFaceAPITextEmbedder,
)

URL = f"http://{GIVEN.http}"
os.environ["OPENAI_API_KEY"] = os.environ["COHERE_API_KEY"] = "any"


def embedded(text_embedder: Any, document_embedder: Any, **how: Any) -> dict[str, Any]:
    documents = [Document(content=text) for text in GIVEN.texts]
    found = document_embedder(**how, progress_bar=False).run(documents)["documents"]
    return {
        "one": [text_embedder(**how).run(GIVEN.text)["embedding"]],
        "many": [document.embedding for document in found],
    }


def tei(url: str, **how: Any) -> dict[str, Any]:
    where = {"api_type": "text_embeddings_inference", "api_params": {"url": url}}
    return embedded(HuggingFaceAPITextEmbedder, HuggingFaceAPIDocumentEmbedder, **where, **how)


answer(
    openai=embedded(OpenAITextEmbedder, OpenAIDocumentEmbedder, model="wordllama", api_base_url=f"{URL}/v1"),
    tei=tei(URL),
    tei_grpc=tei(GIVEN.grpc, use_grpc=True),
    cohere=embedded(CohereTextEmbedder, CohereDocumentEmbedder, model="wordllama", api_base_url=URL),
)
