"""ModelStreamInfer of the Open Inference Protocol: answers against this server's own ``Predict``, and failures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from apis import Api
from reflected import method_at
from serving import PATIENCE_S
from tensors import Asked, tensors, texts_of

from fastqps.api.reflection import message_class

STREAM = "inference.GRPCInferenceService/ModelStreamInfer"
SENTENCES = ["She have a apple.", "I has two dog.", "He go to school every day."]


def stream(api: Api, requests: Iterable[Any]) -> list[Any]:
    return list(method_at(api.channel, STREAM)[0](iter(requests), timeout=PATIENCE_S))


def asked(texts: list[str], model: str = "minilm", name: str = "", **parameters: int) -> Any:
    return Asked({"text": texts}, model, parameters, id=name).message(raw=False)


def final(response: Any) -> bool:
    return bool(response.infer_response.parameters["triton_final_response"].bool_param)


def vectors(response: Any) -> np.ndarray:
    assert not response.error_message
    answer = response.infer_response
    return next(iter(tensors(answer.outputs, answer.raw_output_contents).values()))


def texts_in(response: Any) -> list[str]:
    assert not response.error_message
    (raw,) = response.infer_response.raw_output_contents
    return list(texts_of(raw))


def test_one_answer_for_each_request_in_their_order(api: Api) -> None:
    texts = [f"number {i}" + " word" * (i % 7) for i in range(50)]
    found = stream(api, (asked([text], name=f"id {i}") for i, text in enumerate(texts)))
    assert [response.infer_response.id for response in found] == [f"id {i}" for i in range(50)]
    for response, text in zip(found, texts, strict=True):
        assert final(response) and response.infer_response.model_name == "minilm"
        assert np.abs(vectors(response)[0] - api.client.predict(text).embedding).max() <= 1e-5
    alone = stream(api, [asked(["alone"])])
    assert np.array_equal(vectors(alone[0])[0], api.client.predict("alone").embedding)


def test_requests_of_many_items_and_of_two_models(api: Api) -> None:
    sizes = [1, 3, 1024, 200, 2]
    texts = [[f"{n} {i}" for i in range(n)] for n in sizes]
    found = stream(api, (asked(each, ("minilm", "labelled")[i % 2]) for i, each in enumerate(texts)))
    assert [response.infer_response.model_name for response in found] == ["minilm", "labelled"] * 2 + ["minilm"]
    assert [response.infer_response.outputs[0].shape[0] for response in found] == sizes
    forth, back = (vectors(stream(api, [asked(each)])[0]) for each in (texts[3], texts[3][::-1]))
    assert np.abs(forth - back[::-1]).max() <= 1e-5


def test_generations_come_in_pieces(api: Api) -> None:
    """Pieces of several requests may alternate; their ids say whose they are. A client that reads late gets few."""
    found = stream(api, (asked([text], "grammar", text, max_tokens=20) for text in SENTENCES))
    for text in SENTENCES:
        pieces = [response for response in found if response.infer_response.id == text]
        assert [final(piece) for piece in pieces] == [False] * (len(pieces) - 1) + [True]
        expected = api.client.generate(text, model="grammar", max_tokens=20).text
        assert "".join(part for piece in pieces for part in texts_in(piece)) == expected


def test_pieces_have_log_probabilities(api: Api) -> None:
    (text, *_), options = SENTENCES, {"max_tokens": 6, "top_logprobs": 2, "prompt_logprobs": 0}
    made = api.client.generate(text, model="grammar", logprobs=True, **options)  # type: ignore[arg-type]
    found = [
        tensors(response.infer_response.outputs, response.infer_response.raw_output_contents)
        for response in stream(api, [asked([text], "grammar", text, **options)])
    ]
    assert [id for piece in found for id in piece["token_id"]] == made.token_ids
    assert np.concatenate([piece["logprob"] for piece in found]) == pytest.approx(made.logprobs, abs=1e-5)
    assert np.concatenate([piece["top_token_id"] for piece in found]).shape == (len(made.token_ids), 2)
    assert made.prompt_logprobs and [len(piece["prompt_token_id"]) for piece in found] == [
        len(made.prompt_logprobs.token_ids), *[0] * (len(found) - 1)
    ]  # fmt: skip


def test_choices_come_together(api: Api) -> None:
    (response,) = stream(api, [asked(SENTENCES[:1], "grammar", n=2, max_tokens=4)])
    assert final(response) and response.infer_response.outputs[0].shape == [1, 2]


def test_a_request_of_many_generations_has_one_answer(api: Api) -> None:
    (response,) = stream(api, [asked(SENTENCES, "grammar")])
    expected = [api.client.generate(text, model="grammar").text for text in SENTENCES]
    assert final(response) and texts_in(response) == expected


def test_failures_are_messages_in_their_place(api: Api) -> None:
    sent = {
        "first": asked(["a"], name="first"),
        "unknown": asked(["a"], "東" * 60, "unknown"),
        "wrong": Asked({}, "", id="wrong").message(),
        "partly": asked(["a", "b " * 300, "c"], name="partly"),
        "output": Asked({"text": ["a"]}, outputs=["text"], id="output").message(),
        "last": asked(["z"], name="last"),
    }
    found = stream(api, [asked(["a"], "grammar", "generation", dimensions=5), *sent.values()])
    whole = {response.infer_response.id: response for response in found}
    assert [r.infer_response.id for r in found if r.infer_response.id != "generation"] == [*sent]
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
    assert np.array_equal(vectors(whole["last"])[0], api.client.predict("z").embedding)


def test_damaged_messages_do_not_end_the_stream(api: Api) -> None:
    good = asked(["a"], name="good").SerializeToString()
    response_type = message_class("inference.ModelStreamInferResponse")
    method: Any = api.channel.stream_stream(f"/{STREAM}", response_deserializer=response_type.FromString)
    found = list(method(iter([good, b"\xff", b"", good[:-1], good]), timeout=PATIENCE_S))
    assert [bool(response.error_message) for response in found] == [False, True, True, True, False]
    assert found[1].error_message == "not valid protobuf" and vectors(found[4]).shape == (1, 384)


def test_an_empty_stream_ends_well(api: Api) -> None:
    assert stream(api, []) == []
