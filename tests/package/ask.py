"""A program that knows fastqps-client alone. ``python ask.py ADDRESS`` prints, as JSON, the answers to its clients."""

import asyncio
import json
import sys

import fastqps_client

TEXTS = ["a text", "another"]


async def ask(address: str) -> dict[str, object]:
    async with fastqps_client.AsyncClient(address) as client:
        streamed = {answer.request_id: answer.embedding.tolist() async for answer in client.predict_stream(TEXTS)}
        return {"embed": (await client.embed(TEXTS)).tolist(), "stream": [streamed[i] for i in range(len(TEXTS))]}


def ask_sync(address: str) -> dict[str, object]:
    with fastqps_client.Client(address) as client:
        try:
            client.embed(TEXTS, dimensions=1_000_000)
        except fastqps_client.InvalidArgument as error:
            refused = str(error)
        streamed = {answer.request_id: answer.embedding.tolist() for answer in client.predict_stream(TEXTS)}
        return {
            "embed": client.embed(TEXTS).tolist(),
            "stream": [streamed[i] for i in range(len(TEXTS))],
            "models": [model.name for model in client.models()],
            "ready": client.ready(),
            "refused": refused,
        }


if __name__ == "__main__":
    answers = {"sync": ask_sync(sys.argv[1]), "async": asyncio.run(ask(sys.argv[1]))}
    print(
        json.dumps(
            {**answers, "loaded": sorted({name.partition(".")[0] for name, module in sys.modules.items() if module})}
        )
    )
