"""Short forms of JSON Schema, and of what OpenAPI wraps around it."""

from __future__ import annotations

import math
from typing import Any

from fastqps._core import OPTIONS, OptionRow

Json = dict[str, Any]

STRING: Json = {"type": "string"}
NUMBER: Json = {"type": "number"}
BOOL: Json = {"type": "boolean"}
COUNT: Json = {"type": "integer", "minimum": 0}
ONE_OR_MORE: Json = {"type": "integer", "minimum": 1}
TOKEN_IDS: Json = {"type": "array", "items": COUNT, "minItems": 1}
CALL_OPTIONS: Json = {  # of every request for predictions
    "priority": {"enum": ["low", "normal", "high", None]},
    "timeout": {"type": ["number", "null"], "exclusiveMinimum": 0, "description": "Seconds."},
    "tenant": {"type": ["string", "null"], "description": "Whose share of the service it takes; 256 bytes at most."},
    "group": {"type": ["string", "null"], "description": "Requests of a group are served together; 128 bytes at most."},
}
REFUSALS = {
    400: "The request is malformed, or a field of it is wrong.",
    401: "The token is missing or wrong.",
    404: "The model is not served.",
    413: "The body is too long.",
    429: "Too many requests wait; Retry-After says when to come back.",
    503: "The server starts or drains.",
    504: "The deadline passed.",
}


def array(items: Json, **more: Any) -> Json:
    """An array of such items."""
    return {"type": "array", "items": items, **more}


def items(schema: Json) -> Json:
    """An array that a request may have: it becomes as many items, at most --max-request-items."""
    return array(schema, minItems=1)


def fields(required: str = "", /, **properties: Json) -> Json:
    """An object, which may have other fields, too. ``required``: names of fields."""
    made: Json = {"type": "object", "properties": properties}
    return {**made, "required": required.split()} if required else made


def only(required: str = "", /, **properties: Json) -> Json:
    """An object that may have no other fields."""
    return {**fields(required, **properties), "additionalProperties": False}


def optional(schema: Json) -> Json:
    """A value that may be null, which means not given."""
    return {"anyOf": [schema, {"type": "null"}]}


def _option(row: OptionRow) -> Json:
    """An option as OpenAI's API takes it."""
    match row.kind:
        case "ids" | "texts":
            one = COUNT if row.kind == "ids" else STRING
            return {"anyOf": [one, array(one, maxItems=int(row.high))]}
        case "bool":
            return BOOL
        case "uint64":
            return {"type": "integer"}
        case "float":
            least, kind = "exclusiveMinimum" if row.above_zero else "minimum", "number"
        case _:
            least, kind = "minimum", "integer"
    low = -1 if row.all_is_minus_one else int(row.zero_is_absent) or int(row.low)
    made: Json = {"type": kind, least: low}
    return {**made, "maximum": int(row.high)} if math.isfinite(row.high) else made


_OF_CHOICES = ("n", "best_of")  # which only protocols with a place for several answers take
GENERATE_OPTIONS: Json = {
    row.name: optional(_option(row))
    for row in OPTIONS
    if row.path.startswith("generate.") and (row.by_name or row.name in _OF_CHOICES)
}


def content(schema: Json, kind: str = "application/json") -> Json:
    """A body of this media type."""
    return {kind: {"schema": schema}}


def operation(
    summary: str,
    answer: Json | None,
    error: Json,
    *,
    request: Json | None = None,
    example: Json | None = None,
    refusals: dict[int, str] | None = None,
    streamed: bool = False,
) -> Json:
    """What a route does: the schemas of its request, of its response (None: there is none) and of its errors."""
    found: Json = {"summary": summary}
    if request is not None:
        body: Json = content(request)
        if example is not None:
            body["application/json"]["example"] = example
        found["requestBody"] = {"required": True, "content": body}
    found["responses"] = {}
    if answer is not None:
        answers = content(answer)
        if streamed:
            answers["text/event-stream"] = {"schema": STRING}
        found["responses"]["200"] = {"description": "The answer.", "content": answers}
    for status, why in (REFUSALS if refusals is None else refusals).items():
        found["responses"][str(status)] = {"description": why, "content": content(error)}
    return found
