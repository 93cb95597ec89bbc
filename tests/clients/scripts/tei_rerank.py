"""tei-client over HTTP and gRPC, blocking and asyncio: rerank, to a server whose default model is a cross-encoder."""

import asyncio
from typing import Any

from given import GIVEN, answer
from tei_client import GrpcClient, HttpClient


async def ask(client: Any) -> dict[str, Any]:
    results = [
        client.rerank(GIVEN.query, GIVEN.documents, return_text=True, raw_scores=True),
        await client.async_rerank(GIVEN.query, GIVEN.documents, return_text=True, raw_scores=True),
    ]
    return {"kind": client.info().server_model_type, "ranks": [[vars(r) for r in found.ranks] for found in results]}


async def main() -> None:
    http = await ask(HttpClient(f"http://{GIVEN.http}"))
    answer(http=http, grpc=await ask(GrpcClient(GIVEN.grpc)))


asyncio.run(main())
