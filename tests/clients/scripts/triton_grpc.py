"""tritonclient.grpc: a call, a call by token ids, a callback, readiness, and a stream."""

import queue
from typing import Any

import numpy as np
import tritonclient.grpc as triton
from given import GIVEN, answer


def tensor(*texts: str) -> Any:
    found = triton.InferInput("text", [len(texts)], "BYTES")
    found.set_data_from_numpy(np.array([text.encode() for text in texts], dtype=object))
    return found


client = triton.InferenceServerClient(GIVEN.grpc)
one = client.infer("wordllama", [tensor(GIVEN.text)], request_id="one", priority=1, timeout=10_000_000)
ids = triton.InferInput("input_ids", [1, len(GIVEN.ids)], "INT64")
ids.set_data_from_numpy(np.array([GIVEN.ids]))
results: queue.Queue[Any] = queue.Queue()
client.async_infer("wordllama", [tensor(GIVEN.text)], callback=lambda result, error: results.put((result, error)))
callback, error = results.get(timeout=30)
assert error is None, error
try:
    client.infer("none", [tensor(GIVEN.text)])
    refused = ""
except triton.InferenceServerException as error:
    refused = f"{error.status()}: {error.message()}"

client.start_stream(callback=lambda result, error: results.put((result, error)))
streamed = []
for i in range(20):
    client.async_stream_infer("wordllama", [tensor(GIVEN.text)], request_id=str(i))
for i in range(20):
    result, error = results.get(timeout=30)
    assert error is None and result.get_response().id == str(i), error
    streamed.append(result.as_numpy("embedding")[0])
options = {"max_tokens": GIVEN.count_max}


def generated() -> list[str]:
    """The pieces of the text, as many as come: tokens that are made faster than the server sends them share one."""
    pieces, final = [], False
    client.async_stream_infer("grammar", [tensor(GIVEN.prompt)], parameters=options, enable_empty_final_response=True)
    while not final:
        result, error = results.get(timeout=30)
        assert error is None, error
        pieces.append(result.as_numpy("text")[0].decode())
        final = result.get_response().parameters["triton_final_response"].bool_param
    return pieces


pieces = max((generated() for _ in range(50)), key=len)
client.stop_stream()

sampled = {"max_tokens": 8, "temperature": 1.0, "seed": 3, "n": 2, "logprobs": True, "top_logprobs": 2}
scored = client.infer("grammar", [tensor(GIVEN.prompt)], parameters=sampled)
answer(
    ready=[client.is_server_live(), client.is_server_ready(), client.is_model_ready("wordllama")],
    unready=client.is_model_ready("none"),
    outputs=[output["name"] for output in client.get_model_metadata("wordllama", as_json=True)["outputs"]],
    dims=client.get_model_config("wordllama", as_json=True)["config"]["output"][0]["dims"],
    index=[model["name"] for model in client.get_model_repository_index(as_json=True)["models"]],
    statistics=client.get_inference_statistics("wordllama", as_json=True)["model_stats"][0]["name"],
    id=one.get_response().id,
    one=[one.as_numpy("embedding")[0], callback.as_numpy("embedding")[0]],
    ids=[client.infer("wordllama", [ids]).as_numpy("embedding")[0]],
    many=client.infer("wordllama", [tensor(*GIVEN.texts)]).as_numpy("embedding"),
    generated=client.infer("grammar", [tensor(GIVEN.prompt)], parameters=options).as_numpy("text")[0],
    streamed=streamed,
    pieces=pieces,
    scored={name: scored.as_numpy(name).tolist() for name in ("token_id", "logprob", "offsets", "top_token_id")},
    choices=[[each.decode() for each in row] for row in scored.as_numpy("text")],
    refused=refused,
)
client.close()
