"""tritonclient.http: tensors in JSON and binary, compressed, asynchronous; metadata; errors."""

from itertools import product

import numpy as np
import tritonclient.http as triton
from given import GIVEN, answer


def tensor(*texts: str, binary: bool = True) -> triton.InferInput:
    found = triton.InferInput("text", [len(texts)], "BYTES")
    found.set_data_from_numpy(np.array([text.encode() for text in texts], dtype=object), binary_data=binary)
    return found


client = triton.InferenceServerClient(GIVEN.http, concurrency=4)
one = []
for sent, received, compression in product((True, False), (True, False, None), (None, "gzip", "deflate")):
    outputs = None if received is None else [triton.InferRequestedOutput("embedding", binary_data=received)]
    result = client.infer(
        "wordllama",
        [tensor(GIVEN.text, binary=sent)],
        outputs=outputs,
        request_id="one",
        priority=1,
        timeout=10_000_000,
        request_compression_algorithm=compression,
        response_compression_algorithm=compression,
    )
    assert result.get_response()["id"] == "one"
    one.append(result.as_numpy("embedding")[0])

ids = []
for binary in (True, False):
    tokens = triton.InferInput("input_ids", [1, len(GIVEN.ids)], "INT64")
    tokens.set_data_from_numpy(np.array([GIVEN.ids]), binary_data=binary)
    ids.append(client.infer("wordllama", [tokens]).as_numpy("embedding")[0])
calls = [client.async_infer("wordllama", [tensor(GIVEN.text)]) for _ in range(8)]
try:
    client.infer("none", [tensor(GIVEN.text)])
    refused = ""
except triton.InferenceServerException as error:
    refused = f"{error.status()}: {error.message()}"
generation = client.infer("grammar", [tensor(GIVEN.prompt)], parameters={"max_tokens": GIVEN.count_max})
sampled = {"max_tokens": 8, "temperature": 1.0, "seed": 3, "n": 2, "logprobs": True, "top_logprobs": 2}
scored = client.infer("grammar", [tensor(GIVEN.prompt)], parameters=sampled)
answer(
    ready=[client.is_server_live(), client.is_server_ready(), client.is_model_ready("wordllama")],
    unready=client.is_model_ready("none"),
    outputs=[output["name"] for output in client.get_model_metadata("wordllama")["outputs"]],
    dims=client.get_model_config("wordllama")["output"][0]["dims"],
    index=[model["name"] for model in client.get_model_repository_index()],
    statistics=client.get_inference_statistics("wordllama")["model_stats"][0]["name"],
    one=one,
    ids=ids,
    many=client.infer("wordllama", [tensor(*GIVEN.texts)]).as_numpy("embedding"),
    concurrent=[call.get_result(timeout=30).as_numpy("embedding")[0] for call in calls],
    generated=generation.as_numpy("text")[0],
    scored={name: scored.as_numpy(name).tolist() for name in ("token_id", "logprob", "offsets", "top_token_id")},
    choices=[[each.decode() for each in row] for row in scored.as_numpy("text")],
    refused=refused,
)
client.close()
