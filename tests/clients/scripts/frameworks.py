"""LangChain, LlamaIndex and huggingface_hub: embeddings and completions as their users call them."""

import asyncio
import os

from given import GIVEN, answer
from huggingface_hub import AsyncInferenceClient, InferenceClient
from langchain_huggingface import HuggingFaceEndpointEmbeddings
from langchain_openai import OpenAI, OpenAIEmbeddings
from llama_index.embeddings.openai import OpenAIEmbedding
from llama_index.embeddings.text_embeddings_inference import TextEmbeddingsInference

URL = f"http://{GIVEN.http}"
os.environ["OPENAI_API_KEY"] = "any"

langchain = OpenAIEmbeddings(model="wordllama", base_url=f"{URL}/v1", check_embedding_ctx_length=False)
llm = OpenAI(model="grammar", base_url=f"{URL}/v1", temperature=0, max_tokens=GIVEN.count_max)
llama_openai = OpenAIEmbedding(model_name="wordllama", api_base=f"{URL}/v1")
llama_tei = TextEmbeddingsInference(model_name="wordllama", base_url=URL)
hub = InferenceClient(base_url=URL)
# It takes no address, but clients that have one.
langchain_tei = HuggingFaceEndpointEmbeddings()
langchain_tei.client, langchain_tei.async_client = hub, AsyncInferenceClient(base_url=URL)
answer(
    langchain={
        "one": [langchain.embed_query(GIVEN.text), asyncio.run(langchain.aembed_query(GIVEN.text))],
        "many": langchain.embed_documents(GIVEN.texts),
        "generated": llm.invoke(GIVEN.prompt),
        "pieces": list(llm.stream(GIVEN.prompt)),
    },
    langchain_tei={
        "one": [langchain_tei.embed_query(GIVEN.text), asyncio.run(langchain_tei.aembed_query(GIVEN.text))],
        "many": langchain_tei.embed_documents(GIVEN.texts),
    },
    llama_openai={
        "one": [llama_openai.get_text_embedding(GIVEN.text)],
        "many": llama_openai.get_text_embedding_batch(GIVEN.texts),
    },
    llama_tei={
        "one": [llama_tei.get_text_embedding(GIVEN.text)],
        "many": llama_tei.get_text_embedding_batch(GIVEN.texts),
    },
    hub={"one": [hub.feature_extraction(GIVEN.text)[0]], "many": hub.feature_extraction(GIVEN.texts)},
)
