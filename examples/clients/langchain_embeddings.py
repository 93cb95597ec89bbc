"""LangChain's embeddings for OpenAI, against a fastqps server.

pip install langchain-openai
python langchain_embeddings.py http://127.0.0.1:8000/v1 minilm
"""

import sys

from langchain_openai import OpenAIEmbeddings


def main(base_url: str, model: str) -> None:
    embeddings = OpenAIEmbeddings(
        base_url=base_url,
        model=model,
        api_key="one of the server's tokens, or anything",
        check_embedding_ctx_length=False,  # else it sends token ids of OpenAI's tokenizer, not of this model's
    )
    vectors = embeddings.embed_documents(["a text", "another"])
    print(len(vectors), len(vectors[0]), vectors[0][:3])


if __name__ == "__main__":
    main(*sys.argv[1:])
