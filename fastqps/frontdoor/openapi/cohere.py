"""Cohere's embed API: docs/cohere-embed.md."""

from __future__ import annotations

from fastqps.frontdoor.openapi import schemas as js
from fastqps.frontdoor.openapi.rerank import ERROR
from fastqps.frontdoor.openapi.schemas import Json

_REQUEST = js.only(
    "texts",
    texts=js.items(js.STRING),
    model=js.optional(js.STRING),
    input_type={"enum": ["search_document", "search_query", "classification", "clustering", None]},
    embedding_types=js.optional(
        js.array({"enum": ["float", "int8", "uint8", "binary", "ubinary", "base64"]}, minItems=1)
    ),
    output_dimension=js.optional(js.ONE_OR_MORE),
    truncate={"enum": ["NONE", "START", "END", None]},
    max_tokens=js.optional(js.ONE_OR_MORE),
    **js.CALL_OPTIONS,
)
_FLOATS = js.array(js.array({"type": ["number", "null"]}))
_INTEGERS = js.array(js.array({"type": "integer"}))
_BY_TYPE = js.fields(
    float=_FLOATS,
    int8=_INTEGERS,
    uint8=_INTEGERS,
    binary=_INTEGERS,
    ubinary=_INTEGERS,
    base64=js.array({"type": "string", "contentEncoding": "base64"}),
)
_ANSWER = js.fields(
    "id response_type embeddings texts meta",
    id=js.STRING,
    response_type={"enum": ["embeddings_floats", "embeddings_by_type"]},
    embeddings={"anyOf": [_FLOATS, _BY_TYPE]},
    texts=js.array(js.STRING),
    meta=js.fields(
        "api_version billed_units",
        api_version=js.fields("version", version=js.STRING),
        billed_units=js.fields("input_tokens", input_tokens=js.COUNT),
    ),
)
_EXAMPLE = {"texts": ["a text", "another"], "input_type": "search_document", "embedding_types": ["float", "ubinary"]}

OPERATIONS: dict[tuple[str, str], Json] = {
    ("POST", path): js.operation("Embed texts", _ANSWER, ERROR, request=_REQUEST, example=_EXAMPLE)
    for path in ("/v1/embed", "/v2/embed")
}
