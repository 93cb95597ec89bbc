"""Every refusal of a request names the field, the value that was given, and the limit or what to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from typing import Any

import grpc
import pytest
from posting import Poster
from serving import PATIENCE_S, Server

from fastqps.models import load_card
from fastqps.models.names import resolve
from fastqps.v1 import predict_pb2 as pb

GRAMMAR = load_card("grammar")
VOCAB, TOKENS_MAX = 30522, 256  # of minilm
MADE_MAX = 128  # the usual --max-output-tokens
ITEMS_MAX = 2048  # the usual --max-request-items
NAN = float("nan")

# (fields, the field that the message names, the value that it names, what else it says)
Refused = tuple[dict[str, Any], str, str, str]
OF_ALL: list[Refused] = [
    ({"input": None}, "input", "no text", "pair, token ids or chat"),
    ({"priority": 9}, "priority", "9", "0 to 3"),
    ({"tenant": "t" * 10_000}, "tenant", "10000 bytes", "at most 256"),
    ({"group": "g" * (1 << 20)}, "group", f"{1 << 20} bytes", "at most 128"),
    ({"output": {"dtype": 7}}, "output.dtype", "7", "0 to 6"),
    ({"model": "unheard-of"}, "model", "'unheard-of'", "served: 'minilm', 'grammar'"),
    ({"token_ids": {}}, "token_ids", "0 ids", "at least 1"),
    ({"generate": {"temperature": -2}}, "generate.temperature", "-2", "0 or more"),
    ({"generate": {"temperature": NAN}}, "generate.temperature", "nan", "finite"),
    ({"generate": {"top_k": 65}}, "generate.top_k", "65", "at most 64"),
    ({"generate": {"top_p": 1.5}}, "generate.top_p", "1.5", "above 0 and at most 1"),
    ({"generate": {"top_p": NAN}}, "generate.top_p", "nan", "above 0 and at most 1"),
    ({"generate": {"repetition_penalty": 0}}, "generate.repetition_penalty", "0", "finite number above 0"),
    ({"generate": {"presence_penalty": -2.5}}, "generate.presence_penalty", "-2.5", "must be -2 to 2"),
    ({"generate": {"min_p": 1.5}}, "generate.min_p", "1.5", "must be 0 to 1"),
    ({"generate": {"no_repeat_ngram_size": 65}}, "generate.no_repeat_ngram_size", "65", "at most 64"),
    ({"generate": {"suppress_token_ids": [1] * 9}}, "generate.suppress_token_ids", "9 ids", "at most 8"),
    ({"generate": {"stop": ["x"] * 17}}, "generate.stop", "17 strings", "at most 16"),
    ({"generate": {"stop": ["x", ""]}}, "generate.stop", "string 1 has 0 bytes", "1 to 256"),
    ({"generate": {"stop": ["x" * 300]}}, "generate.stop", "string 0 has 300 bytes", "1 to 256"),
    ({"generate": {"stop_token_ids": [1] * 9}}, "generate.stop_token_ids", "9 ids", "at most 8"),
]
OF_ENCODERS: list[Refused] = [
    ({"text": "word " * 300}, "text", "302 tokens", f"at most {TOKENS_MAX}; set truncate"),
    ({"text": "word " * 20_000}, "text", "100000 bytes", "at most 65536"),
    ({"pair": {"first": "word " * 300, "second": "b"}}, "pair", "304 tokens", f"at most {TOKENS_MAX}"),
    ({"token_ids": {"ids": [5] * 257}}, "token_ids", "257 tokens", f"at most {TOKENS_MAX}"),
    ({"token_ids": {"ids": [5, VOCAB]}}, "token_ids", f"id {VOCAB}", f"the vocabulary has {VOCAB}"),
    ({"output": {"dimensions": 385}}, "output.dimensions", "385", "at most 384"),
    ({"output": {"dtype": 3, "normalize": False}}, "output.dtype", "DTYPE_INT8 (3)", "set normalize"),
    ({"output": {"aggregation": 5}}, "output.aggregation", "5", "the model 'minilm' embeds texts"),
    ({"output": {"max_active_dims": 3}}, "output.max_active_dims", "3", "the model 'minilm' embeds texts"),
    ({"generate": {"top_k": 3}}, "generate", "'minilm' does not generate text", "leave it unset"),
]
OF_GENERATORS: list[Refused] = [
    ({"token_ids": {"ids": [5, GRAMMAR.vocab_size]}}, "token_ids", f"id {GRAMMAR.vocab_size}", "the vocabulary has"),
    ({"token_ids": {"ids": [5] * 9999}}, "token_ids", "9999 tokens", f"at most {GRAMMAR.max_input_tokens}"),
    ({"pair": {"first": "a", "second": "b"}}, "pair", "2 texts", "at most 1"),
    ({"output": {"dtype": 2}}, "output.dtype", "2", "leave it unset"),
    ({"output": {"dimensions": 5}}, "output.dimensions", "5", "leave it unset"),
    ({"output": {"normalize": True}}, "output.normalize", "1", "leave it unset"),
    ({"output": {"top_labels": 4}}, "output.top_labels", "4", "leave it unset"),
    ({"output": {"raw_scores": True}}, "output.raw_scores", "1", "leave it unset"),
    ({"generate": {"max_tokens": MADE_MAX + 1}}, "generate.max_tokens", str(MADE_MAX + 1), f"at most {MADE_MAX}"),
    ({"generate": {"max_tokens": 3, "min_tokens": 4}}, "generate.min_tokens", "4", "at most max_tokens, 3"),
    (
        {"generate": {"suppress_token_ids": [GRAMMAR.vocab_size]}},
        "generate.suppress_token_ids", f"id {GRAMMAR.vocab_size}", f"the vocabulary has {GRAMMAR.vocab_size}",
    ),
    (
        {"generate": {"stop_token_ids": [GRAMMAR.vocab_size]}},
        "generate.stop_token_ids", f"id {GRAMMAR.vocab_size}", f"the vocabulary has {GRAMMAR.vocab_size}",
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def server(module_server: Callable[..., Server]) -> Server:
    return module_server("--model=minilm", "--model=grammar")


def request(model: str, fields: dict[str, Any]) -> pb.PredictRequest:
    given = fields.keys() & {"text", "token_ids", "pair", "input"}
    said = {key: value for key, value in fields.items() if key != "input"}
    return pb.PredictRequest(**{"model": model, **({} if given else {"text": "a"}), **said})


ROWS = [
    *(("minilm", *row) for row in OF_ALL + OF_ENCODERS),
    *(("grammar", *row) for row in OF_ALL + OF_GENERATORS),
]


@pytest.mark.parametrize(("model", "fields", "field", "given", "limit"), ROWS)
def test_a_refusal_names_field_value_and_limit(
    stub: Any, model: str, fields: dict[str, Any], field: str, given: str, limit: str
) -> None:
    asked = request(model, fields)
    with pytest.raises(grpc.RpcError) as caught:
        stub.Predict(asked, timeout=PATIENCE_S)
    code = grpc.StatusCode.NOT_FOUND if field == "model" else grpc.StatusCode.INVALID_ARGUMENT
    message = caught.value.details()
    assert caught.value.code() is code and message.startswith(f"{field}: "), message
    assert given in message and limit in message, message
    if model == "grammar":
        with pytest.raises(grpc.RpcError) as caught:
            list(stub.Generate(asked, timeout=PATIENCE_S))
        assert (caught.value.code(), caught.value.details()) == (code, message)
    items = [request(model, {}), asked, request(model, {})]
    first, second, third = stub.PredictBatch(pb.PredictBatchRequest(items=items), timeout=PATIENCE_S).items
    assert (second.status.code, second.status.message) == (code.value[0], message)
    assert not first.HasField("status") and not third.HasField("status")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("fastqps-tenant", "t" * 10_000, "fastqps-tenant: 10000 bytes, must be at most 256"),
        ("fastqps-group", "g" * 129, "fastqps-group: 129 bytes, must be at most 128"),
    ],
)
def test_metadata_and_headers_are_limited_as_fields_are(
    server: Server, stub: Any, name: str, value: str, message: str
) -> None:
    asked = request("minilm", {})
    for call in (
        lambda data: stub.Predict(asked, metadata=data),
        lambda data: next(stub.Generate(asked, metadata=data)),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            call([(name, value)])
        assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.INVALID_ARGUMENT, message)
    status, document = post(server, {"input": "a"}, {name: value})
    assert (status, document["error"]["message"]) == (400, message)
    stub.Predict(asked, metadata=[(name, value[:100])], timeout=PATIENCE_S)
    assert post(server, {"input": "a"}, {name: value[:100]})[0] == 200


@pytest.mark.parametrize(
    ("field", "bytes_given", "limit"), [("tenant", 10_000, 256), ("group", 1 << 20, 128)], ids=["tenant", "group"]
)
def test_fields_of_json_are_limited_as_those_of_protobuf_are(
    server: Server, field: str, bytes_given: int, limit: int
) -> None:
    status, document = post(server, {"input": "a", field: "x" * bytes_given}, {})
    assert (status, document["error"]["message"]) == (400, f"{field}: {bytes_given} bytes, must be at most {limit}")
    assert post(server, {"input": "a", field: "x" * limit}, {})[0] == 200


def post(server: Server, body: dict[str, Any], headers: dict[str, str]) -> tuple[int, Any]:
    """Status and document of a request for an embedding in OpenAI's protocol."""
    with closing(Poster(server)) as poster:
        response, content = poster.send("POST", "/v1/embeddings", json.dumps(body).encode(), **headers)
    return response.status, json.loads(content)


def test_a_batch_names_the_number_of_its_items_and_the_limit(stub: Any) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        stub.PredictBatch(pb.PredictBatchRequest(items=[request("", {})] * (ITEMS_MAX + 6)), timeout=PATIENCE_S)
    assert caught.value.details() == f"items: {ITEMS_MAX + 6} items, at most {ITEMS_MAX}"


def test_generate_names_a_model_that_does_not_generate(stub: Any) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        list(stub.Generate(request("minilm", {}), timeout=PATIENCE_S))
    assert caught.value.details() == "model: 'minilm' does not generate text; call Predict"


def test_the_limits_of_the_table_are_the_models() -> None:
    card = load_card("minilm")
    assert resolve("minilm") and (card.vocab_size, card.max_input_tokens) == (VOCAB, TOKENS_MAX)
