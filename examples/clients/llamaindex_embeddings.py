"""LlamaIndex' embeddings for OpenAI's API, against a fastqps server.

pip install llama-index-embeddings-openai-like
python llamaindex_embeddings.py http://127.0.0.1:8000/v1 minilm
"""

import sys

from llama_index.embeddings.openai_like import OpenAILikeEmbedding


def main(base_url: str, model: str) -> None:
    embeddings = OpenAILikeEmbedding(api_base=base_url, model_name=model, api_key="a token, or anything")
    vectors = embeddings.get_text_embedding_batch(["a text", "another"])
    print(len(vectors), len(vectors[0]), vectors[0][:3])


if __name__ == "__main__":
    main(*sys.argv[1:])
