"""tritonclient.http.aio: calls, readiness, metadata."""

import asyncio

import numpy as np
import tritonclient.http.aio as triton
from given import GIVEN, answer


async def main() -> None:
    texts = triton.InferInput("text", [1], "BYTES")
    texts.set_data_from_numpy(np.array([GIVEN.text.encode()], dtype=object))
    async with triton.InferenceServerClient(GIVEN.http) as client:
        results = [await client.infer("wordllama", [texts]) for _ in range(3)]
        config = await client.get_model_config("wordllama")
        answer(
            ready=[await client.is_server_ready(), await client.is_model_ready("wordllama")],
            dims=config["output"][0]["dims"],
            one=[result.as_numpy("embedding")[0] for result in results],
        )


asyncio.run(main())
