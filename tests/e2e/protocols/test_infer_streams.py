"""ModelStreamInfer of the Open Inference Protocol: answers against this server's own ``Predict``, and failures."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from serving import PATIENCE_S, Server

import fastqps
from fastqps.api.reflection import message_class

REQUEST, RESPONSE = message_class("inference.ModelInferRequest"), message_class("inference.ModelStreamInferResponse")
FINAL = "triton_final_response"
SENTENCES = ["She have a apple.", "I has two dog.", "He go to school every day."]


@pytest.fixture(scope="module")
def stream(server: Server) -> Iterator[Callable[..., list[Any]]]:
    with grpc.insecure_channel(server.address) as channel:
        method: Any = channel.stream_stream(
            "/inference.GRPCInferenceService/ModelStreamInfer", REQUEST.SerializeToString, RESPONSE.FromString
        )

        def call(requests: Iterable[Any]) -> list[Any]:
            return list(method(iter(requests), timeout=PATIENCE_S))

        yield call


def asked(texts: list[str], model: str = "minilm", **fields: Any) -> Any:
    request: Any = REQUEST(model_name=model, **fields)
    request.inputs.add(name="text", datatype="BYTES", shape=[len(texts)]).contents.bytes_contents.extend(
        text.encode() for text in texts
    )
    return request


def final(response: Any) -> bool:
    return bool(response.infer_response.parameters[FINAL].bool_param)


def vectors(response: Any) -> np.ndarray:
    assert not response.error_message
    output = response.infer_response.outputs[0]
    return np.frombuffer(response.infer_response.raw_output_contents[0], np.float32).reshape(list(output.shape))


def text_of(response: Any) -> str:
    assert not response.error_message
    (raw,) = response.infer_response.raw_output_contents
    assert struct.unpack_from("<I", raw)[0] == len(raw) - 4
    return str(raw[4:].decode())


def test_one_answer_for_each_request_in_their_order(stream: Any, client: fastqps.Client) -> None:
    texts = [f"number {i}" + " word" * (i % 7) for i in range(50)]
    found = stream(asked([text], id=f"id {i}") for i, text in enumerate(texts))
    assert [response.infer_response.id for response in found] == [f"id {i}" for i in range(50)]
    for response, text in zip(found, texts, strict=True):
        assert final(response) and response.infer_response.model_name == "minilm"
        assert np.abs(vectors(response)[0] - client.predict(text).embedding).max() <= 1e-5
    alone = stream([asked(["alone"])])
    assert np.array_equal(vectors(alone[0])[0], client.predict("alone").embedding)


def test_requests_of_many_items_and_of_two_models(stream: Any) -> None:
    sizes = [1, 3, 1024, 200, 2]
    texts = [[f"{n} {i}" for i in range(n)] for n in sizes]
    found = stream(asked(each, ("minilm", "labelled")[i % 2]) for i, each in enumerate(texts))
    assert [response.infer_response.model_name for response in found] == ["minilm", "labelled"] * 2 + ["minilm"]
    assert [response.infer_response.outputs[0].shape[0] for response in found] == sizes
    forth, back = (vectors(stream([asked(each)])[0]) for each in (texts[3], texts[3][::-1]))
    assert np.abs(forth - back[::-1]).max() <= 1e-5


def test_generations_come_in_pieces(stream: Any, client: fastqps.Client) -> None:
    """Pieces of several requests may alternate; their ids say whose they are. A client that reads late gets few."""

    def requests() -> Iterator[Any]:
        for text in SENTENCES:
            request = asked([text], "grammar", id=text)
            request.parameters["max_tokens"].int64_param = 20
            yield request

    found = stream(requests())
    for text in SENTENCES:
        pieces = [response for response in found if response.infer_response.id == text]
        assert [final(piece) for piece in pieces] == [False] * (len(pieces) - 1) + [True]
        expected = client.generate(text, model="grammar", max_tokens=20).text
        assert "".join(text_of(piece) for piece in pieces) == expected


def test_a_request_of_many_generations_has_one_answer(stream: Any, client: fastqps.Client) -> None:
    (response,) = stream([asked(SENTENCES, "grammar")])
    raw, found = response.infer_response.raw_output_contents[0], []
    while raw:
        size = struct.unpack_from("<I", raw)[0]
        found.append(raw[4 : 4 + size].decode())
        raw = raw[4 + size :]
    assert final(response) and found == [client.generate(text, model="grammar").text for text in SENTENCES]


def test_failures_are_messages_in_their_place(stream: Any, client: fastqps.Client) -> None:
    unknown = asked(["a"], "東" * 60, id="unknown")
    wrong = REQUEST(id="wrong")
    partly = asked(["a", "b " * 300, "c"], id="partly")
    generation = asked(["a"], "grammar", id="generation")
    generation.parameters["dimensions"].int64_param = 5
    output = asked(["a"], id="output")
    output.outputs.add(name="text")
    sent = [asked(["a"], id="first"), unknown, wrong, partly, output, asked(["z"], id="last")]
    found = stream([generation, *sent])
    whole = {response.infer_response.id: response for response in found}
    assert [r.infer_response.id for r in found if r.infer_response.id != "generation"] == [each.id for each in sent]
    errors = {
        "unknown": "model_name: '東",
        "wrong": "inputs: must hold either text or input_ids",
        "partly": "text: 302 tokens, at most 256",
        "generation": "dimensions",
        "output": "outputs: the model 'minilm' has no output 'text'",
    }
    for name, message in errors.items():
        assert whole[name].error_message.startswith(message), whole[name]
        assert final(whole[name]) and not whole[name].infer_response.outputs
    assert np.array_equal(vectors(whole["last"])[0], client.predict("z").embedding)


def test_damaged_messages_do_not_end_the_stream(server: Server) -> None:
    with grpc.insecure_channel(server.address) as channel:
        method: Any = channel.stream_stream(
            "/inference.GRPCInferenceService/ModelStreamInfer", response_deserializer=RESPONSE.FromString
        )
        good = asked(["a"], id="good").SerializeToString()
        found = list(method(iter([good, b"\xff", b"", good[:-1], good]), timeout=PATIENCE_S))
    assert [bool(response.error_message) for response in found] == [False, True, True, True, False]
    assert found[1].error_message == "not valid protobuf" and vectors(found[4]).shape == (1, 384)


def test_an_empty_stream_ends_well(stream: Any) -> None:
    assert stream([]) == []
