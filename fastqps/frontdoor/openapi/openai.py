"""OpenAI's API: docs/openai.md."""

from __future__ import annotations

from fastqps.frontdoor.openapi.schemas import (
    BOOL,
    CALL_OPTIONS,
    COUNT,
    GENERATE_OPTIONS,
    ONE_OR_MORE,
    STRING,
    TOKEN_IDS,
    Json,
    array,
    fields,
    items,
    only,
    operation,
    optional,
)

ERROR = fields(
    "error",
    error=fields("message type param code", message=STRING, type=STRING, param=optional(STRING), code=optional(STRING)),
)
INPUT = {"anyOf": [STRING, TOKEN_IDS, items({"anyOf": [STRING, TOKEN_IDS]})]}
_USAGE = fields("prompt_tokens total_tokens", prompt_tokens=COUNT, completion_tokens=COUNT, total_tokens=COUNT)
IGNORED: dict[str, Json] = {
    name: {"description": "Changes nothing: the response names it in Fastqps-Ignored."}
    for name in ("service_tier", "metadata", "store", "safety_identifier", "prompt_cache_key")
}
_OPTIONS = {
    "model": optional(STRING),
    "user": optional(STRING),
    "truncate": optional(BOOL),
    **CALL_OPTIONS,
    **IGNORED,
}

_EMBEDDINGS = only(
    "input",
    input=INPUT,
    encoding_format={"enum": ["float", "base64", None]},
    dimensions=optional(ONE_OR_MORE),
    output_dtype={"enum": ["float", "int8", "uint8", "binary", "ubinary"]},
    normalize=optional(BOOL),
    embedding_type={"enum": ["float", "base64", "int8", "uint8", "binary", "ubinary", None]},
    task={"enum": ["retrieval.query", "retrieval.passage", "text-matching", "classification", "separation", None]},
    normalized=optional(BOOL),
    late_chunking={"enum": [False, None]},
    input_type={"enum": ["query", "document", None]},
    truncation=optional(BOOL),
    output_dimension=optional(ONE_OR_MORE),
    **_OPTIONS,
)
_EMBEDDING = fields(
    "object index embedding",
    object={"const": "embedding"},
    index=COUNT,
    embedding={"anyOf": [array({"type": ["number", "null"]}), {"type": "string", "contentEncoding": "base64"}]},
)
_EMBEDDED = fields(
    "object data model usage", object={"const": "list"}, data=array(_EMBEDDING), model=STRING, usage=_USAGE
)

_COMPLETIONS = only(
    "prompt",
    prompt=INPUT,
    **GENERATE_OPTIONS,
    logprobs=optional({"enum": [0, 1]}),
    stream=optional(BOOL),
    stream_options=optional(only(include_usage=BOOL, continuous_usage_stats=BOOL, include_obfuscation=BOOL)),
    n={"enum": [1, None]},
    best_of={"enum": [1, None]},
    echo={"enum": [False, None]},
    suffix={"enum": ["", None]},
    logit_bias=optional({"type": "object", "maxProperties": 0}),
    length_penalty={"enum": [1, None]},
    skip_special_tokens={"enum": [True, None]},
    spaces_between_special_tokens={"enum": [True, None]},
    include_stop_str_in_output={"enum": [False, None]},
    use_beam_search={"enum": [False, None]},
    early_stopping={"enum": [False, None]},
    **_OPTIONS,
)
_LOGPROBS = fields("tokens token_logprobs", tokens=array(STRING), token_logprobs=array({"type": ["number", "null"]}))
_CHOICE = fields(
    "text index logprobs finish_reason",
    text=STRING,
    index=COUNT,
    logprobs=optional(_LOGPROBS),
    finish_reason={"enum": ["stop", "length", None]},
)
_COMPLETED = fields(
    "object id created model choices",
    object={"const": "text_completion"},
    id=STRING,
    created=COUNT,
    model=STRING,
    choices=array(_CHOICE),
    usage=_USAGE,
)
_MODEL = fields("id object created owned_by", id=STRING, object={"const": "model"}, created=COUNT, owned_by=STRING)

OPERATIONS: dict[tuple[str, str], Json] = {
    ("POST", "/v1/embeddings"): operation(
        "Embed texts", _EMBEDDED, ERROR, request=_EMBEDDINGS, example={"input": ["a text", "another"]}
    ),
    ("POST", "/v1/completions"): operation(
        "Generate text",
        _COMPLETED,
        ERROR,
        request=_COMPLETIONS,
        example={"prompt": "She have a apple.", "temperature": 0, "model": "grammar"},
        streamed=True,
    ),
    ("GET", "/v1/models"): operation(
        "The served models", fields("object data", object={"const": "list"}, data=array(_MODEL)), ERROR, refusals={}
    ),
    ("GET", "/v1/models/{model}"): operation("A served model", _MODEL, ERROR, refusals={404: "It is not served."}),
}
OPERATIONS["POST", "/embeddings"] = OPERATIONS["POST", "/v1/embeddings"]
