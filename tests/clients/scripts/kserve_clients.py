"""kserve's InferenceGRPCClient, and InferenceRESTClient with tensors in JSON and binary."""

import asyncio

import numpy as np
from given import GIVEN, answer
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest
from kserve.inference_client import RESTConfig
from kserve.protocol.infer_type import RequestedOutput


def request(*texts: str, binary: bool) -> InferRequest:
    tensor = InferInput("text", [len(texts)], "BYTES")
    tensor.set_data_from_numpy(np.array([text.encode() for text in texts], dtype=object), binary_data=binary)
    outputs = [RequestedOutput("embedding", {"binary_data": True})] if binary else None
    return InferRequest("wordllama", [tensor], request_id="one", request_outputs=outputs)


async def main() -> None:
    url = f"http://{GIVEN.http}"
    rest = InferenceRESTClient(RESTConfig(protocol="v2"))
    async with InferenceGRPCClient(GIVEN.grpc) as grpc:
        results = [await grpc.infer(request(GIVEN.text, binary=binary)) for binary in (True, False)]
        results += [await rest.infer(url, request(GIVEN.text, binary=binary), "wordllama") for binary in (True, False)]
        many = [
            await grpc.infer(request(*GIVEN.texts, binary=True)),
            await rest.infer(url, request(*GIVEN.texts, binary=True), "wordllama"),
        ]
        answer(
            grpc_ready=[
                await grpc.is_server_live(),
                await grpc.is_server_ready(),
                await grpc.is_model_ready("wordllama"),
            ],
            rest_ready=[
                await rest.is_server_live(url),
                await rest.is_server_ready(url),
                await rest.is_model_ready(url, "wordllama"),
            ],
            ids=[result.id for result in results],
            one=[result.outputs[0].as_numpy()[0] for result in results],
            many=[result.outputs[0].as_numpy() for result in many],
        )
    await rest.close()


asyncio.run(main())
