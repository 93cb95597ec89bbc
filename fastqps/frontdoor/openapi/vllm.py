"""vLLM's API of models that do not generate: docs/vllm.md."""

from __future__ import annotations

from typing import Any

from fastqps.frontdoor.openapi.openai import ERROR, IGNORED, INPUT
from fastqps.frontdoor.openapi.schemas import (
    BOOL,
    CALL_OPTIONS,
    COUNT,
    NUMBER,
    ONE_OR_MORE,
    STRING,
    Json,
    array,
    fields,
    items,
    only,
    operation,
    optional,
)

_OPTIONS: dict[str, Json] = {
    "model": optional(STRING),
    "user": optional(STRING),
    "request_id": optional(STRING),
    "use_activation": optional(BOOL),
    "truncate_prompt_tokens": optional({"anyOf": [{"const": -1}, ONE_OR_MORE]}),
    "truncation_side": {"enum": ["left", "right", None]},
    "padding": {"enum": ["do_not_pad", None]},
    "add_special_tokens": {"enum": [True, None]},
    "embed_dtype": {"enum": ["float32", None]},
    "endianness": {"enum": ["native", "little", None]},
    **CALL_OPTIONS,
    **IGNORED,
}
_CLASSIFY = only("input", input=INPUT, **_OPTIONS)
_POOLING = only(
    "input",
    input=INPUT,
    task={"enum": ["embed", "token_embed", "classify", None]},
    encoding_format={"enum": ["float", "base64", None]},
    dimensions=optional(ONE_OR_MORE),
    prompt_name=optional(STRING),
    **_OPTIONS,
)
_TEXTS = {"anyOf": [STRING, items(STRING)]}
_NAMES = (("queries", "documents"), ("queries", "items"), ("data_1", "data_2"), ("text_1", "text_2"))
_SCORE = {"anyOf": [only(f"{a} {b}", **{a: _TEXTS, b: _TEXTS}, **_OPTIONS) for a, b in _NAMES]}
_NUMBERS = array({"type": ["number", "null"]})


def _answer(**element: Json) -> Json:
    return fields(
        "id object created model data usage",
        id=STRING,
        object={"const": "list"},
        created=COUNT,
        model=STRING,
        data=array(fields(" ".join(["index", *element]), index=COUNT, **element)),
        usage=fields("prompt_tokens total_tokens", prompt_tokens=COUNT, total_tokens=COUNT),
    )


_CLASSIFIED = _answer(label=STRING, probs=array(NUMBER), num_classes=COUNT)
_POOLED = _answer(
    object={"const": "pooling"},
    data={"anyOf": [_NUMBERS, array(_NUMBERS), {"type": "string", "contentEncoding": "base64"}]},
)
_SCORED = _answer(object={"const": "score"}, score=NUMBER)


def _post(summary: str, answer: Json, request: Json, **example: Any) -> Json:
    return operation(summary, answer, ERROR, request=request, example=example)


OPERATIONS: dict[tuple[str, str], Json] = {
    ("POST", "/classify"): _post("Classify texts", _CLASSIFIED, _CLASSIFY, input=["a text", "another"]),
    ("POST", "/pooling"): _post("Embed texts, or classify them", _POOLED, _POOLING, input=["a text", "another"]),
    ("POST", "/score"): _post("Score pairs of texts", _SCORED, _SCORE, queries="food", documents=["a meal", "a stone"]),
}
OPERATIONS["POST", "/v1/score"] = OPERATIONS["POST", "/score"]
