"""Cohere's embed API: docs/cohere-embed.md."""

from __future__ import annotations

from fastqps.frontdoor.openapi.rerank import ERROR
from fastqps.frontdoor.openapi.schemas import (
    CALL_OPTIONS,
    COUNT,
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

_REQUEST = only(
    "texts",
    texts=items(STRING),
    model=optional(STRING),
    input_type={"enum": ["search_document", "search_query", "classification", "clustering", None]},
    embedding_types=optional(array({"enum": ["float", "int8", "uint8", "binary", "ubinary", "base64"]}, minItems=1)),
    output_dimension=optional(ONE_OR_MORE),
    truncate={"enum": ["NONE", "START", "END", None]},
    max_tokens=optional(ONE_OR_MORE),
    **CALL_OPTIONS,
)
_FLOATS = array(array({"type": ["number", "null"]}))
_INTEGERS = array(array({"type": "integer"}))
_BY_TYPE = fields(
    float=_FLOATS,
    int8=_INTEGERS,
    uint8=_INTEGERS,
    binary=_INTEGERS,
    ubinary=_INTEGERS,
    base64=array({"type": "string", "contentEncoding": "base64"}),
)
_ANSWER = fields(
    "id response_type embeddings texts meta",
    id=STRING,
    response_type={"enum": ["embeddings_floats", "embeddings_by_type"]},
    embeddings={"anyOf": [_FLOATS, _BY_TYPE]},
    texts=array(STRING),
    meta=fields(
        "api_version billed_units",
        api_version=fields("version", version=STRING),
        billed_units=fields("input_tokens", input_tokens=COUNT),
    ),
)
_EXAMPLE = {"texts": ["a text", "another"], "input_type": "search_document", "embedding_types": ["float", "ubinary"]}

OPERATIONS: dict[tuple[str, str], Json] = {
    ("POST", path): operation("Embed texts", _ANSWER, ERROR, request=_REQUEST, example=_EXAMPLE)
    for path in ("/v1/embed", "/v2/embed")
}
