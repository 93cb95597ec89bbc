"""The rerank API of Cohere and Jina: docs/rerank.md."""

from __future__ import annotations

from fastqps.frontdoor.openapi import schemas as js
from fastqps.frontdoor.openapi.schemas import Json

ERROR = js.fields("message detail", message=js.STRING, detail=js.STRING)
REQUEST = js.only(
    "query documents",
    model=js.optional(js.STRING),
    query={"type": "string", "minLength": 1},
    documents=js.items({"anyOf": [js.STRING, js.fields("text", text=js.STRING)]}),
    top_n=js.optional(js.ONE_OR_MORE),
    return_documents=js.optional(js.BOOL),
    truncate=js.optional(js.BOOL),
    max_tokens_per_doc=js.optional(js.ONE_OR_MORE),
    max_chunks_per_doc=js.optional(js.ONE_OR_MORE),
    rank_fields=js.optional(js.array({"const": "text"})),
    **js.CALL_OPTIONS,
)
_RESULT = js.fields(
    "index relevance_score", index=js.COUNT, relevance_score=js.NUMBER, document=js.fields("text", text=js.STRING)
)
ANSWER = js.fields(
    "id model results usage meta",
    id=js.STRING,
    model=js.STRING,
    results=js.array(_RESULT),
    usage=js.fields("prompt_tokens total_tokens", prompt_tokens=js.COUNT, total_tokens=js.COUNT),
    meta=js.fields(
        "api_version billed_units", api_version=js.fields("version", version=js.STRING), billed_units=js.fields()
    ),
)
_EXAMPLE = {"query": "What is food?", "documents": ["A meal.", {"text": "A stone."}], "return_documents": True}

OPERATIONS: dict[tuple[str, str], Json] = {
    ("POST", path): js.operation(
        "Sort documents by what they say to a query", ANSWER, ERROR, request=REQUEST, example=_EXAMPLE
    )
    for path in ("/v1/rerank", "/v2/rerank", "/openai/v1/rerank")
}
