"""text-embeddings-inference's API: docs/text-embeddings-inference.md."""

from __future__ import annotations

from typing import Any

from fastqps.frontdoor.openapi import rerank
from fastqps.frontdoor.openapi import schemas as js
from fastqps.frontdoor.openapi.schemas import Json
from fastqps.frontdoor.openapi.vllm import TOKENIZE, TOKENIZED

ERROR = js.fields(
    "error error_type",
    error=js.STRING,
    error_type={"enum": ["Empty", "Validation", "Backend", "Overloaded", "Unhealthy"]},
)
_REFUSALS = {
    **{status: why for status, why in js.REFUSALS.items() if status != 404},
    400: "There is nothing to predict, or the body is not a JSON object.",
    413: "Too many items, or the body is too long.",
    422: "A field is wrong, or a text is too long.",
    424: "The model cannot do it.",
}
_OPTIONS: dict[str, Json] = {
    "truncate": js.optional(js.BOOL),
    "truncation_direction": {"enum": ["Left", "Right", "left", "right", None]},
    "prompt_name": js.optional(js.STRING),
    **js.CALL_OPTIONS,
}
_EMBED = js.fields(
    "inputs",
    inputs={"anyOf": [js.STRING, js.TOKEN_IDS, js.items({"anyOf": [js.STRING, js.TOKEN_IDS]})]},
    normalize=js.optional(js.BOOL),
    dimensions=js.optional(js.ONE_OR_MORE),
    **_OPTIONS,
)
_EMBED_SPARSE = js.fields("inputs", inputs=_EMBED["properties"]["inputs"], **_OPTIONS)
_SIMILARITY = js.fields(
    "inputs",
    inputs=js.fields("source_sentence sentences", source_sentence=js.STRING, sentences=js.items(js.STRING)),
    parameters=js.optional(js.fields(**_OPTIONS)),
)
_PAIR = js.array(js.STRING, minItems=1, maxItems=2)
_PREDICT = js.fields(
    "inputs", inputs={"anyOf": [js.STRING, _PAIR, js.items(_PAIR)]}, raw_scores=js.optional(js.BOOL), **_OPTIONS
)
_TEXTS = js.fields(
    "query texts",
    query=js.STRING,
    texts=js.items(js.STRING),
    raw_scores=js.optional(js.BOOL),
    return_text=js.optional(js.BOOL),
    **_OPTIONS,
)
_RERANK = {"anyOf": [_TEXTS, rerank.REQUEST]}
_ENTITIES = js.fields(
    "inputs",
    inputs={"anyOf": [js.STRING, js.items(js.STRING)]},
    parameters=js.optional(
        js.fields(aggregation_strategy={"enum": ["none", "simple", "first", "average", "max", None]})
    ),
    **_OPTIONS,
)
_VECTORS = js.array(js.array({"type": ["number", "null"]}))
_SPARSE = js.array(js.array(js.fields("index value", index=js.COUNT, value=js.NUMBER)))
_LABELS = js.array(js.fields("score label", score=js.NUMBER, label=js.STRING))
_PREDICTED = {"anyOf": [_LABELS, js.array(_LABELS)]}
_PLACE = {"score": js.NUMBER, "word": js.STRING, "start": js.COUNT, "end": js.COUNT}
_PLACES = js.array(js.fields(" ".join(_PLACE), entity_group=js.STRING, entity=js.STRING, **_PLACE))
_FOUND = {"anyOf": [_PLACES, js.array(_PLACES)]}
_RANKS = js.array(js.fields("index score", index=js.COUNT, score=js.NUMBER, text=js.STRING))
_RANKED = {"anyOf": [_RANKS, rerank.ANSWER]}
_TOKEN = js.fields(
    "id text special",
    id=js.COUNT,
    text=js.STRING,
    special=js.BOOL,
    start=js.optional(js.COUNT),
    stop=js.optional(js.COUNT),
)
_INFO = js.fields(
    "model_id model_type max_input_length max_client_batch_size version",
    model_id=js.STRING,
    model_type=js.fields(),
    max_input_length=js.COUNT,
    max_client_batch_size=js.COUNT,
    version=js.STRING,
)


def _post(summary: str, answer: Json, request: Json, **example: Any) -> Json:
    return js.operation(summary, answer, ERROR, request=request, example=example, refusals=_REFUSALS)


_TOKENIZE = js.fields(
    "inputs",
    inputs={"anyOf": [js.STRING, js.items(js.STRING)]},
    add_special_tokens=js.optional(js.BOOL),
    prompt_name=js.optional(js.STRING),
)

OPERATIONS: dict[tuple[str, str], Json] = {
    ("POST", "/embed"): _post("Embed texts", _VECTORS, _EMBED, inputs=["a text", "another"]),
    ("POST", "/embed_all"): _post("A vector for each token", js.array(_VECTORS), _EMBED_SPARSE, inputs="a text"),
    ("POST", "/embed_sparse"): _post("Weights of token ids", _SPARSE, _EMBED_SPARSE, inputs="a text"),
    ("POST", "/similarity"): _post(
        "The cosines of one text with others",
        js.array({"type": ["number", "null"]}),
        _SIMILARITY,
        inputs={"source_sentence": "a text", "sentences": ["another"]},
    ),
    ("POST", "/predict"): _post("Classify texts or pairs", _PREDICTED, _PREDICT, inputs=[["a text", "another"]]),
    ("POST", "/entities"): _post(
        "Find entities in texts, as Hugging Face's API for token classification",
        _FOUND,
        _ENTITIES,
        inputs="Ada Lovelace lived in London",
    ),
    ("POST", "/rerank"): _post(
        "Sort texts by what they say to a query", _RANKED, _RERANK, query="food", texts=["a meal"], return_text=True
    ),
    ("POST", "/"): _post(
        "What the default model can do",
        {"anyOf": [_VECTORS, _SPARSE, _PREDICTED, _FOUND, _RANKED, js.array({"type": ["number", "null"]})]},
        {"anyOf": [_EMBED, _SIMILARITY, _PREDICT, _ENTITIES, _RERANK]},
        inputs="a text",
    ),
    ("POST", "/tokenize"): _post(
        "The tokens of texts; those of a prompt or a conversation, as vLLM has them",
        {"anyOf": [js.array(js.array(_TOKEN)), TOKENIZED]},
        {"anyOf": [_TOKENIZE, TOKENIZE]},
        inputs="a text",
    ),
    ("POST", "/decode"): _post(
        "The texts of token ids",
        js.array(js.STRING),
        js.fields(
            "ids", ids={"anyOf": [js.TOKEN_IDS, js.items(js.TOKEN_IDS)]}, skip_special_tokens=js.optional(js.BOOL)
        ),
        ids=[101, 1037, 3793, 102],
    ),
    ("GET", "/info"): js.operation("The default model and its limits", _INFO, ERROR, refusals={}),
}
OPERATIONS["POST", "/invocations"] = OPERATIONS["POST", "/"]
VERTEX_PATH = "/vertex"
_OF_ANY = {"anyOf": [_EMBED, _PREDICT, _ENTITIES, _TEXTS, js.STRING, js.TOKEN_IDS, js.items({})]}
_ANSWERS = {"anyOf": [_VECTORS, _SPARSE, _PREDICTED, _FOUND, _RANKS]}
OPERATIONS["POST", VERTEX_PATH] = _post(
    "What the default model can do, in the form of Vertex AI",
    js.fields("predictions", predictions=js.array(_ANSWERS)),
    js.fields("instances", instances=js.items(_OF_ANY), parameters=js.optional(js.fields(**_OPTIONS))),
    instances=[{"inputs": "a text"}, {"inputs": ["another", "a third"]}],
)
