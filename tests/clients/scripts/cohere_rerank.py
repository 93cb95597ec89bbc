"""cohere: rerank by version 2, blocking and asyncio, and by version 1."""

import asyncio
from typing import Any

import cohere
from given import GIVEN, answer

URL = f"http://{GIVEN.http}"


def ranks(response: Any) -> list[Any]:
    return [[result.index, result.relevance_score] for result in response.results]


async def main() -> None:
    fields = {"model": "ranker", "query": GIVEN.query, "documents": GIVEN.documents}
    second = cohere.ClientV2("any", base_url=URL)
    answer(
        v2=ranks(second.rerank(**fields)),
        v2_async=ranks(await cohere.AsyncClientV2("any", base_url=URL).rerank(**fields)),
        v1=ranks(cohere.Client("any", base_url=URL).rerank(**fields, return_documents=True)),
        top=ranks(second.rerank(**fields, top_n=2)),
    )


asyncio.run(main())
