"""tritonclient.grpc.aio: a call, a stream, readiness."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import tritonclient.grpc.aio as triton
from given import GIVEN, answer


def tensor(*texts: str) -> Any:
    found = triton.InferInput("text", [len(texts)], "BYTES")
    found.set_data_from_numpy(np.array([text.encode() for text in texts], dtype=object))
    return found


async def requests() -> AsyncIterator[dict[str, Any]]:
    for i in range(5):
        yield {"model_name": "wordllama", "inputs": [tensor(GIVEN.text)], "request_id": str(i)}


async def main() -> None:
    async with triton.InferenceServerClient(GIVEN.grpc) as client:
        one = await client.infer("wordllama", [tensor(GIVEN.text)], request_id="one")
        many = await client.infer("wordllama", [tensor(*GIVEN.texts)])
        streamed = []
        async for result, error in client.stream_infer(requests()):
            assert error is None, error
            streamed.append(result.as_numpy("embedding")[0])
        answer(
            ready=[await client.is_server_ready(), await client.is_model_ready("wordllama")],
            id=one.get_response().id,
            one=[one.as_numpy("embedding")[0]],
            many=many.as_numpy("embedding"),
            streamed=streamed,
        )


asyncio.run(main())
