"""vLLM's API of models that do not generate: docs/vllm.md."""

from __future__ import annotations

from typing import Any

from fastqps.frontdoor.openapi import schemas as js
from fastqps.frontdoor.openapi.openai import ERROR, IGNORED, INPUT, MESSAGES
from fastqps.frontdoor.openapi.schemas import Json

_OPTIONS: dict[str, Json] = {
    "model": js.optional(js.STRING),
    "user": js.optional(js.STRING),
    "request_id": js.optional(js.STRING),
    "use_activation": js.optional(js.BOOL),
    "truncate_prompt_tokens": js.optional({"anyOf": [{"const": -1}, js.ONE_OR_MORE]}),
    "truncation_side": {"enum": ["left", "right", None]},
    "padding": {"enum": ["do_not_pad", None]},
    "add_special_tokens": {"enum": [True, None]},
    "embed_dtype": {"enum": ["float32", None]},
    "endianness": {"enum": ["native", "little", None]},
    **js.CALL_OPTIONS,
    **IGNORED,
}
_CLASSIFY = js.only("input", input=INPUT, **_OPTIONS)
_POOLING = js.only(
    "input",
    input=INPUT,
    task={"enum": ["embed", "token_embed", "classify", None]},
    encoding_format={"enum": ["float", "base64", None]},
    dimensions=js.optional(js.ONE_OR_MORE),
    prompt_name=js.optional(js.STRING),
    **_OPTIONS,
)
_TEXTS = {"anyOf": [js.STRING, js.items(js.STRING)]}
_NAMES = (("queries", "documents"), ("queries", "items"), ("data_1", "data_2"), ("text_1", "text_2"))
_SCORE = {"anyOf": [js.only(f"{a} {b}", **{a: _TEXTS, b: _TEXTS}, **_OPTIONS) for a, b in _NAMES]}
_NUMBERS = js.array({"type": ["number", "null"]})


def _answer(**element: Json) -> Json:
    return js.fields(
        "id object created model data usage",
        id=js.STRING,
        object={"const": "list"},
        created=js.COUNT,
        model=js.STRING,
        data=js.array(js.fields(" ".join(["index", *element]), index=js.COUNT, **element)),
        usage=js.fields("prompt_tokens total_tokens", prompt_tokens=js.COUNT, total_tokens=js.COUNT),
    )


_CLASSIFIED = _answer(label=js.STRING, probs=js.array(js.NUMBER), num_classes=js.COUNT)
_POOLED = _answer(
    object={"const": "pooling"},
    data={"anyOf": [_NUMBERS, js.array(_NUMBERS), {"type": "string", "contentEncoding": "base64"}]},
)
_SCORED = _answer(object={"const": "score"}, score=js.NUMBER)


def _post(summary: str, answer: Json, request: Json, **example: Any) -> Json:
    return js.operation(summary, answer, ERROR, request=request, example=example)


_FLAGS = ("add_special_tokens", "return_token_strs", "add_generation_prompt", "continue_final_message")
TOKENIZED = js.fields(
    "count max_model_len tokens",
    count=js.COUNT,
    max_model_len=js.COUNT,
    tokens=js.TOKEN_IDS,
    token_strs=js.optional(js.array(js.STRING)),
)
TOKENIZE = {
    "anyOf": [
        js.fields(
            name,
            **{name: value},
            model=js.optional(js.STRING),
            chat_template_kwargs=js.optional({"type": "object"}),
            **{flag: js.optional(js.BOOL) for flag in _FLAGS},
        )
        for name, value in (("prompt", js.STRING), ("messages", MESSAGES))
    ]
}

OPERATIONS: dict[tuple[str, str], Json] = {
    ("POST", "/detokenize"): _post(
        "The text of token ids",
        js.fields("prompt", prompt=js.STRING),
        js.fields("tokens", tokens=js.TOKEN_IDS, model=js.optional(js.STRING)),
        tokens=[72, 105],
    ),
    ("POST", "/classify"): _post("Classify texts", _CLASSIFIED, _CLASSIFY, input=["a text", "another"]),
    ("POST", "/pooling"): _post("Embed texts, or classify them", _POOLED, _POOLING, input=["a text", "another"]),
    ("POST", "/score"): _post("Score pairs of texts", _SCORED, _SCORE, queries="food", documents=["a meal", "a stone"]),
}
OPERATIONS["POST", "/v1/score"] = OPERATIONS["POST", "/score"]
