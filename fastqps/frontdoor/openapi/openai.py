"""OpenAI's API: docs/openai.md."""

from __future__ import annotations

from fastqps._core import TOP_LOGPROBS_MAX
from fastqps.frontdoor.openapi import schemas as js
from fastqps.frontdoor.openapi.schemas import Json

ERROR = js.fields(
    "error",
    error=js.fields(
        "message type param code",
        message=js.STRING,
        type=js.STRING,
        param=js.optional(js.STRING),
        code=js.optional(js.STRING),
    ),
)
INPUT = {"anyOf": [js.STRING, js.TOKEN_IDS, js.items({"anyOf": [js.STRING, js.TOKEN_IDS]})]}
_USAGE = js.fields(
    "prompt_tokens total_tokens", prompt_tokens=js.COUNT, completion_tokens=js.COUNT, total_tokens=js.COUNT
)
IGNORED: dict[str, Json] = {
    name: {"description": "Changes nothing: the response names it in Fastqps-Ignored."}
    for name in ("service_tier", "metadata", "store", "safety_identifier", "prompt_cache_key")
}
_OPTIONS = {
    "model": js.optional(js.STRING),
    "user": js.optional(js.STRING),
    "truncate": js.optional(js.BOOL),
    **js.CALL_OPTIONS,
    **IGNORED,
}

_EMBEDDINGS = js.only(
    "input",
    input=INPUT,
    encoding_format={"enum": ["float", "base64", None]},
    dimensions=js.optional(js.ONE_OR_MORE),
    output_dtype={"enum": ["float", "int8", "uint8", "binary", "ubinary"]},
    normalize=js.optional(js.BOOL),
    embedding_type={"enum": ["float", "base64", "int8", "uint8", "binary", "ubinary", None]},
    task={"enum": ["retrieval.query", "retrieval.passage", "text-matching", "classification", "separation", None]},
    normalized=js.optional(js.BOOL),
    late_chunking={"enum": [False, None]},
    input_type={"enum": ["query", "document", None]},
    truncation=js.optional(js.BOOL),
    output_dimension=js.optional(js.ONE_OR_MORE),
    **_OPTIONS,
)
_EMBEDDING = js.fields(
    "object index embedding",
    object={"const": "embedding"},
    index=js.COUNT,
    embedding={"anyOf": [js.array({"type": ["number", "null"]}), {"type": "string", "contentEncoding": "base64"}]},
)
_EMBEDDED = js.fields(
    "object data model usage", object={"const": "list"}, data=js.array(_EMBEDDING), model=js.STRING, usage=_USAGE
)

_SCHEMA: Json = {"type": ["object", "boolean", "string"]}
_CHOICES = js.array(js.STRING, minItems=1)
_FORMAT = js.fields(
    "type", type={"enum": ["text", "json_object", "json_schema"]}, json_schema=js.fields("schema", schema=_SCHEMA)
)
_TOP: Json = {"type": "integer", "minimum": 0, "maximum": TOP_LOGPROBS_MAX}
_GENERATED: dict[str, Json] = dict(
    **js.GENERATE_OPTIONS,
    prompt_logprobs=js.optional(_TOP),
    stream=js.optional(js.BOOL),
    stream_options=js.optional(
        js.only(include_usage=js.BOOL, continuous_usage_stats=js.BOOL, include_obfuscation=js.BOOL)
    ),
    logit_bias=js.optional({"type": "object", "maxProperties": 0}),
    length_penalty={"enum": [1, None]},
    skip_special_tokens={"enum": [True, None]},
    spaces_between_special_tokens={"enum": [True, None]},
    include_stop_str_in_output={"enum": [False, None]},
    use_beam_search={"enum": [False, None]},
    early_stopping={"enum": [False, None]},
    response_format=js.optional(_FORMAT),
    guided_json=js.optional(_SCHEMA),
    guided_regex=js.optional(js.STRING),
    guided_grammar=js.optional(js.STRING),
    guided_choice=js.optional(_CHOICES),
    structured_outputs=js.optional(
        js.only(
            json=js.optional(_SCHEMA),
            regex=js.optional(js.STRING),
            grammar=js.optional(js.STRING),
            choice=js.optional(_CHOICES),
            json_object=js.BOOL,
        )
    ),
    **_OPTIONS,
)
_COMPLETIONS = js.only(
    "prompt",
    prompt=INPUT,
    **{**_GENERATED, "logprobs": js.optional(_TOP)},
    echo=js.optional(js.BOOL),
    suffix={"enum": ["", None]},
)
_TEXT_PART = js.fields("type text", type={"const": "text"}, text=js.STRING)
MESSAGES = js.array(
    js.fields(
        "role content",
        role={"enum": ["system", "developer", "user", "assistant"]},
        content={"anyOf": [js.STRING, js.array({"anyOf": [_TEXT_PART, js.STRING]})]},
    )
)
_EMPTY: dict[str, Json] = {
    name: js.optional({"type": "array", "maxItems": 0}) for name in ("tools", "functions", "documents")
}
_CHAT = js.only(
    "messages",
    messages=MESSAGES,
    **{**_GENERATED, "logprobs": js.optional(js.BOOL)},
    top_logprobs=js.optional(_TOP),
    max_completion_tokens=js.optional(js.ONE_OR_MORE),
    add_generation_prompt=js.optional(js.BOOL),
    continue_final_message=js.optional(js.BOOL),
    chat_template_kwargs=js.optional({"type": "object"}),
    enable_thinking=js.optional(js.BOOL),
    reasoning_effort=js.optional(js.STRING),
    tool_choice={"enum": ["none", "auto", None]},
    function_call={"enum": ["none", "auto", None]},
    parallel_tool_calls=js.optional(js.BOOL),
    modalities=js.optional(js.array({"const": "text"})),
    **_EMPTY,
)
_LOGPROBS = js.fields(
    "tokens token_logprobs top_logprobs text_offset",
    tokens=js.array(js.STRING),
    token_logprobs=js.array(js.optional(js.NUMBER)),
    top_logprobs=js.array(js.optional({"type": "object", "additionalProperties": js.NUMBER})),
    text_offset=js.array(js.COUNT),
)
_TOKEN: dict[str, Json] = {
    "token": js.STRING,
    "logprob": js.NUMBER,
    "bytes": js.optional(js.array({"type": "integer", "minimum": 0, "maximum": 255})),
}
_CHAT_LOGPROBS = js.fields(
    "content refusal",
    content=js.array(
        js.fields(
            "token logprob bytes top_logprobs",
            **_TOKEN,
            top_logprobs=js.array(js.fields("token logprob bytes", **_TOKEN)),
        )
    ),
    refusal={"type": "null"},
)
_RANKED = js.fields(
    "logprob rank decoded_token", logprob=js.NUMBER, rank=js.optional(js.COUNT), decoded_token=js.optional(js.STRING)
)
_PROMPT_LOGPROBS = js.array(js.optional({"type": "object", "additionalProperties": _RANKED}))
_CHOICE = js.fields(
    "text index logprobs finish_reason",
    text=js.STRING,
    index=js.COUNT,
    logprobs=js.optional(_LOGPROBS),
    finish_reason={"enum": ["stop", "length", None]},
    prompt_logprobs=_PROMPT_LOGPROBS,
)
_COMPLETED = js.fields(
    "object id created model choices",
    object={"const": "text_completion"},
    id=js.STRING,
    created=js.COUNT,
    model=js.STRING,
    choices=js.array(_CHOICE),
    usage=_USAGE,
)
_MESSAGE = js.fields("role content refusal", role={"const": "assistant"}, content=js.STRING, refusal={"type": "null"})
CHATTED = js.fields(
    "object id created model choices",
    object={"const": "chat.completion"},
    id=js.STRING,
    created=js.COUNT,
    model=js.STRING,
    choices=js.array(
        js.fields(
            "message index logprobs finish_reason",
            message=_MESSAGE,
            index=js.COUNT,
            logprobs=js.optional(_CHAT_LOGPROBS),
            finish_reason={"enum": ["stop", "length"]},
        )
    ),
    prompt_logprobs=_PROMPT_LOGPROBS,
    usage=_USAGE,
)
_MODEL = js.fields(
    "id object created owned_by",
    id=js.STRING,
    object={"const": "model"},
    created=js.COUNT,
    owned_by=js.STRING,
    task=js.STRING,
    chat=js.BOOL,
    max_model_len=js.COUNT,
)

ROOTS = ("", "/openai")  # the second: as KServe's runtimes have the same routes
OPERATIONS: dict[tuple[str, str], Json] = {
    ("POST", "/v1/embeddings"): js.operation(
        "Embed texts", _EMBEDDED, ERROR, request=_EMBEDDINGS, example={"input": ["a text", "another"]}
    ),
    ("POST", "/v1/completions"): js.operation(
        "Generate text",
        _COMPLETED,
        ERROR,
        request=_COMPLETIONS,
        example={"prompt": "She have a apple.", "temperature": 0, "model": "grammar"},
        streamed=True,
    ),
    ("POST", "/v1/chat/completions"): js.operation(
        "Answer a conversation",
        CHATTED,
        ERROR,
        request=_CHAT,
        example={"messages": [{"role": "user", "content": "Hello"}], "model": "grammar"},
        streamed=True,
    ),
    ("GET", "/v1/models"): js.operation(
        "The served models",
        js.fields("object data", object={"const": "list"}, data=js.array(_MODEL)),
        ERROR,
        refusals={},
    ),
    ("GET", "/v1/models/{model}"): js.operation("A served model", _MODEL, ERROR, refusals={404: "It is not served."}),
}
OPERATIONS = {(verb, root + path): row for root in ROOTS for (verb, path), row in OPERATIONS.items()}
OPERATIONS["POST", "/embeddings"] = OPERATIONS["POST", "/v1/embeddings"]
