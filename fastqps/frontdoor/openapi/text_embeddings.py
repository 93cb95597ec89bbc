"""text-embeddings-inference's API: docs/text-embeddings-inference.md."""

from __future__ import annotations

from typing import Any

from fastqps.frontdoor.openapi import rerank
from fastqps.frontdoor.openapi.schemas import (
    BOOL,
    CALL_OPTIONS,
    COUNT,
    NUMBER,
    ONE_OR_MORE,
    REFUSALS,
    STRING,
    TOKEN_IDS,
    Json,
    array,
    fields,
    items,
    operation,
    optional,
)

ERROR = fields(
    "error error_type", error=STRING, error_type={"enum": ["Empty", "Validation", "Backend", "Overloaded", "Unhealthy"]}
)
_REFUSALS = {
    **{status: why for status, why in REFUSALS.items() if status != 404},
    400: "There is nothing to predict, or the body is not a JSON object.",
    413: "Too many items, or the body is too long.",
    422: "A field is wrong, or a text is too long.",
    424: "The model cannot do it.",
}
_OPTIONS: dict[str, Json] = {
    "truncate": optional(BOOL),
    "truncation_direction": {"enum": ["Left", "Right", "left", "right", None]},
    "prompt_name": optional(STRING),
    **CALL_OPTIONS,
}
_EMBED = fields(
    "inputs",
    inputs={"anyOf": [STRING, TOKEN_IDS, items({"anyOf": [STRING, TOKEN_IDS]})]},
    normalize=optional(BOOL),
    dimensions=optional(ONE_OR_MORE),
    **_OPTIONS,
)
_EMBED_SPARSE = fields("inputs", inputs=_EMBED["properties"]["inputs"], **_OPTIONS)
_SIMILARITY = fields(
    "inputs",
    inputs=fields("source_sentence sentences", source_sentence=STRING, sentences=items(STRING)),
    parameters=optional(fields(**_OPTIONS)),
)
_PAIR = array(STRING, minItems=1, maxItems=2)
_PREDICT = fields("inputs", inputs={"anyOf": [STRING, _PAIR, items(_PAIR)]}, raw_scores=optional(BOOL), **_OPTIONS)
_TEXTS = fields(
    "query texts",
    query=STRING,
    texts=items(STRING),
    raw_scores=optional(BOOL),
    return_text=optional(BOOL),
    **_OPTIONS,
)
_RERANK = {"anyOf": [_TEXTS, rerank.REQUEST]}
_ENTITIES = fields(
    "inputs",
    inputs={"anyOf": [STRING, items(STRING)]},
    parameters=optional(fields(aggregation_strategy={"enum": ["none", "simple", "first", "average", "max", None]})),
    **_OPTIONS,
)
_VECTORS = array(array({"type": ["number", "null"]}))
_SPARSE = array(array(fields("index value", index=COUNT, value=NUMBER)))
_LABELS = array(fields("score label", score=NUMBER, label=STRING))
_PREDICTED = {"anyOf": [_LABELS, array(_LABELS)]}
_PLACE = {"score": NUMBER, "word": STRING, "start": COUNT, "end": COUNT}
_PLACES = array(fields(" ".join(_PLACE), entity_group=STRING, entity=STRING, **_PLACE))
_FOUND = {"anyOf": [_PLACES, array(_PLACES)]}
_RANKS = array(fields("index score", index=COUNT, score=NUMBER, text=STRING))
_RANKED = {"anyOf": [_RANKS, rerank.ANSWER]}
_TOKEN = fields("id text special", id=COUNT, text=STRING, special=BOOL, start=optional(COUNT), stop=optional(COUNT))
_INFO = fields(
    "model_id model_type max_input_length max_client_batch_size version",
    model_id=STRING,
    model_type=fields(),
    max_input_length=COUNT,
    max_client_batch_size=COUNT,
    version=STRING,
)


def _post(summary: str, answer: Json, request: Json, **example: Any) -> Json:
    return operation(summary, answer, ERROR, request=request, example=example, refusals=_REFUSALS)


OPERATIONS: dict[tuple[str, str], Json] = {
    ("POST", "/embed"): _post("Embed texts", _VECTORS, _EMBED, inputs=["a text", "another"]),
    ("POST", "/embed_all"): _post("A vector for each token", array(_VECTORS), _EMBED_SPARSE, inputs="a text"),
    ("POST", "/embed_sparse"): _post("Weights of token ids", _SPARSE, _EMBED_SPARSE, inputs="a text"),
    ("POST", "/similarity"): _post(
        "The cosines of one text with others",
        array({"type": ["number", "null"]}),
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
        {"anyOf": [_VECTORS, _SPARSE, _PREDICTED, _FOUND, _RANKED, array({"type": ["number", "null"]})]},
        {"anyOf": [_EMBED, _SIMILARITY, _PREDICT, _ENTITIES, _RERANK]},
        inputs="a text",
    ),
    ("POST", "/tokenize"): _post(
        "The tokens of texts",
        array(array(_TOKEN)),
        fields(
            "inputs",
            inputs={"anyOf": [STRING, items(STRING)]},
            add_special_tokens=optional(BOOL),
            prompt_name=optional(STRING),
        ),
        inputs="a text",
    ),
    ("POST", "/decode"): _post(
        "The texts of token ids",
        array(STRING),
        fields("ids", ids={"anyOf": [TOKEN_IDS, items(TOKEN_IDS)]}, skip_special_tokens=optional(BOOL)),
        ids=[101, 1037, 3793, 102],
    ),
    ("GET", "/info"): operation("The default model and its limits", _INFO, ERROR, refusals={}),
}
OPERATIONS["POST", "/invocations"] = OPERATIONS["POST", "/"]
VERTEX_PATH = "/vertex"
_OF_ANY = {"anyOf": [_EMBED, _PREDICT, _ENTITIES, _TEXTS, STRING, TOKEN_IDS, items({})]}
_ANSWERS = {"anyOf": [_VECTORS, _SPARSE, _PREDICTED, _FOUND, _RANKS]}
OPERATIONS["POST", VERTEX_PATH] = _post(
    "What the default model can do, in the form of Vertex AI",
    fields("predictions", predictions=array(_ANSWERS)),
    fields("instances", instances=items(_OF_ANY), parameters=optional(fields(**_OPTIONS))),
    instances=[{"inputs": "a text"}, {"inputs": ["another", "a third"]}],
)
