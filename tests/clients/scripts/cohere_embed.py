"""cohere: embed by version 2, blocking and asyncio, and by version 1, with and without types."""

import asyncio
from typing import Any

import cohere
from given import GIVEN, answer

URL = f"http://{GIVEN.http}"
TYPES = ["float", "int8", "uint8", "binary", "ubinary"]


def by_type(response: Any) -> dict[str, Any]:
    found = response.embeddings
    # The field of floats has another name in the client, because float is one of Python's.
    return {name: getattr(found, "float_" if name == "float" else name) for name in TYPES}


async def main() -> None:
    fields = {"model": "wordllama", "texts": GIVEN.texts, "input_type": "search_document"}
    first, second = cohere.Client("any", base_url=URL), cohere.ClientV2("any", base_url=URL)
    asynchronous = cohere.AsyncClientV2("any", base_url=URL)
    answer(
        v2=by_type(second.embed(**fields, embedding_types=TYPES)),
        v2_async=by_type(await asynchronous.embed(**fields, embedding_types=TYPES)),
        v1=by_type(first.embed(**fields, embedding_types=TYPES)),
        v1_floats={"float": first.embed(**fields).embeddings},
    )


asyncio.run(main())
