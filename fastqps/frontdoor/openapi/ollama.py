"""Embeddings of Ollama's API: docs/coming-from.md."""

from __future__ import annotations

from fastqps.frontdoor.openapi import schemas as js
from fastqps.frontdoor.openapi.schemas import Json

_ERROR = js.fields("error", error=js.STRING)
_OPTIONS = {
    "model": js.optional(js.STRING),
    "truncate": js.optional(js.BOOL),
    "dimensions": js.optional(js.ONE_OR_MORE),
    **js.CALL_OPTIONS,
}
_VECTOR = js.array({"type": ["number", "null"]})

OPERATIONS: dict[tuple[str, str], Json] = {
    ("POST", "/api/embed"): js.operation(
        "Embed texts",
        js.fields(
            "model embeddings total_duration load_duration prompt_eval_count",
            model=js.STRING,
            embeddings=js.array(_VECTOR),
            total_duration=js.COUNT,
            load_duration=js.COUNT,
            prompt_eval_count=js.COUNT,
        ),
        _ERROR,
        request=js.fields(
            "input", input={"anyOf": [js.STRING, js.items({"anyOf": [js.STRING, js.TOKEN_IDS]})]}, **_OPTIONS
        ),
        example={"input": ["a text", "another"]},
    ),
    ("POST", "/api/embeddings"): js.operation(
        "Embed a text",
        js.fields("embedding", embedding=_VECTOR),
        _ERROR,
        request=js.fields("prompt", prompt=js.STRING, **_OPTIONS),
        example={"prompt": "a text"},
    ),
}
