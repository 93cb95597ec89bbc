"""tei-client over HTTP and gRPC, blocking and asyncio: embeddings and tokens."""

import asyncio
from typing import Any

from given import GIVEN, answer
from tei_client import GrpcClient, HttpClient


async def ask(client: Any) -> dict[str, Any]:
    embedded = client.embed(GIVEN.text) + await client.async_embed(GIVEN.text)
    tokens = client.tokenize(GIVEN.text)[0].get_ids()
    return {
        "kind": client.info().server_model_type,
        "one": [list(vector) for vector in embedded],
        "many": [list(vector) for vector in client.embed(GIVEN.texts) + await client.async_embed(GIVEN.texts)],
        "tokens": [tokens, (await client.async_tokenize(GIVEN.text))[0].get_ids()],
        "decoded": client.decode(tokens),
        "healthy": client.health(),
        "prompts": client.prompt_names(),
    }


async def main() -> None:
    http = await ask(HttpClient(f"http://{GIVEN.http}"))
    answer(http=http, grpc=await ask(GrpcClient(GIVEN.grpc)))


asyncio.run(main())
