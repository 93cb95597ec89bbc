"""Embeddings of Ollama's API: docs/coming-from.md."""

from __future__ import annotations

from fastqps.frontdoor.openapi.schemas import (
    BOOL,
    CALL_OPTIONS,
    COUNT,
    ONE_OR_MORE,
    STRING,
    TOKEN_IDS,
    Json,
    array,
    fields,
    items,
    operation,
    optional,
)

_ERROR = fields("error", error=STRING)
_OPTIONS = {
    "model": optional(STRING),
    "truncate": optional(BOOL),
    "dimensions": optional(ONE_OR_MORE),
    **CALL_OPTIONS,
}
_VECTOR = array({"type": ["number", "null"]})

OPERATIONS: dict[tuple[str, str], Json] = {
    ("POST", "/api/embed"): operation(
        "Embed texts",
        fields(
            "model embeddings total_duration load_duration prompt_eval_count",
            model=STRING,
            embeddings=array(_VECTOR),
            total_duration=COUNT,
            load_duration=COUNT,
            prompt_eval_count=COUNT,
        ),
        _ERROR,
        request=fields("input", input={"anyOf": [STRING, items({"anyOf": [STRING, TOKEN_IDS]})]}, **_OPTIONS),
        example={"input": ["a text", "another"]},
    ),
    ("POST", "/api/embeddings"): operation(
        "Embed a text",
        fields("embedding", embedding=_VECTOR),
        _ERROR,
        request=fields("prompt", prompt=STRING, **_OPTIONS),
        example={"prompt": "a text"},
    ),
}
