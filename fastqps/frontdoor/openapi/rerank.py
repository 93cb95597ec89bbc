"""The rerank API of Cohere and Jina: docs/rerank.md."""

from __future__ import annotations

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

ERROR = fields("message detail", message=STRING, detail=STRING)
REQUEST = only(
    "query documents",
    model=optional(STRING),
    query={"type": "string", "minLength": 1},
    documents=items({"anyOf": [STRING, fields("text", text=STRING)]}),
    top_n=optional(ONE_OR_MORE),
    return_documents=optional(BOOL),
    truncate=optional(BOOL),
    max_tokens_per_doc=optional(ONE_OR_MORE),
    max_chunks_per_doc=optional(ONE_OR_MORE),
    rank_fields=optional(array({"const": "text"})),
    **CALL_OPTIONS,
)
_RESULT = fields("index relevance_score", index=COUNT, relevance_score=NUMBER, document=fields("text", text=STRING))
ANSWER = fields(
    "id model results usage meta",
    id=STRING,
    model=STRING,
    results=array(_RESULT),
    usage=fields("prompt_tokens total_tokens", prompt_tokens=COUNT, total_tokens=COUNT),
    meta=fields("api_version billed_units", api_version=fields("version", version=STRING), billed_units=fields()),
)
_EXAMPLE = {"query": "What is food?", "documents": ["A meal.", {"text": "A stone."}], "return_documents": True}

OPERATIONS: dict[tuple[str, str], Json] = {
    ("POST", path): operation(
        "Sort documents by what they say to a query", ANSWER, ERROR, request=REQUEST, example=_EXAMPLE
    )
    for path in ("/v1/rerank", "/v2/rerank")
}
