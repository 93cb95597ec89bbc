"""The rare routes of text-embeddings-inference's HTTP API: /info, /tokenize and /decode, for the default model."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from fastqps.errors import ModelError, StatusCode
from fastqps.frontdoor.default_tokenizer import DefaultTokenizer
from fastqps.frontdoor.rare_calls import CallFailed
from fastqps.frontdoor.rare_routes import JSON, RareRoute, Request, Response, json_bytes, json_response
from fastqps.frontdoor.served import ServedModels
from fastqps.frontdoor.text_embeddings import facts, model_type
from fastqps.frontdoor.vllm_tokens import VllmTokens
from fastqps.models.card import ModelCard
from fastqps.models.sentence_transformers.pipeline import read_pipeline
from fastqps.models.tokenizers.tokenizer import Piece

_ID_LIMIT = 2**32


class _Refused(Exception):
    """Ends a request with this status and type of error."""

    def __init__(self, status: int, error_type: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.error_type = error_type


def routes(
    models: ServedModels, dtype: str, tokenizer: DefaultTokenizer, auto_truncate: bool | None, vllm: VllmTokens
) -> list[RareRoute]:
    """The table of the routes that Python answers. ``dtype``: of models that are not static."""

    def info(_: Request) -> bytes:
        return json_bytes(_info(models, dtype) | {"auto_truncate": auto_truncate is not False})

    def tokens_json(pieces: list[Piece]) -> bytes:
        return json_bytes([piece._asdict() for piece in pieces])

    def tokenize(request: Request) -> bytes:
        body = _fields(request.body)
        prompt_name = body.get("prompt_name")
        if not isinstance(prompt_name, str | None):
            raise _invalid("prompt_name: must be a string")
        _check_text("prompt_name", prompt_name or "")
        special_tokens = _flag(body, "add_special_tokens")
        if body.get("inputs") is None:
            raise _invalid("inputs: must be given; or prompt or messages, as in vLLM's API")
        texts = _texts(body["inputs"], models.items_max)
        # A text's tokens are written before the next one's are made: as objects they take ten times as much memory.
        found = [tokens_json(tokenizer.pieces(text, prompt_name, special_tokens=special_tokens)) for text in texts]
        return b"[" + b",".join(found) + b"]"

    def decode(request: Request) -> bytes:
        body = _fields(request.body)
        skip = _flag(body, "skip_special_tokens")
        rows = _rows(body.get("ids"), models.items_max)
        return json_bytes([tokenizer.decode(row, skip_special_tokens=skip) for row in rows])

    def tokenize_either(request: Request) -> Response:
        with suppress(_Refused):
            if vllm.is_ours(_fields(request.body)):
                return vllm.tokenize(request)
        return _answering(tokenize)(request)

    return [
        RareRoute("GET", "/info", _answering(info), protocol="tei"),
        RareRoute("POST", "/tokenize", tokenize_either, slow=True, protocol="tei"),
        RareRoute("POST", "/decode", _answering(decode), slow=True, protocol="tei"),
    ]


def _answering(answer: Callable[[Request], bytes]) -> Callable[[Request], Response]:
    def respond(request: Request) -> Response:
        try:
            return Response(200, JSON, answer(request))
        except _Refused as error:
            return _error(error.status, error.error_type, str(error))
        except CallFailed as error:
            if error.code == StatusCode.INVALID_ARGUMENT:
                return _error(422, "Validation", str(error))
            return _error(424, "Backend", str(error))

    return respond


def _error(status: int, error_type: str, message: str) -> Response:
    return json_response({"error": message, "error_type": error_type}, status)


def _invalid(message: str) -> _Refused:
    return _Refused(422, "Validation", message)


def _fields(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _Refused(400, "Validation", f"the body is not valid JSON: {error}") from None
    if not isinstance(found, dict):
        raise _Refused(400, "Validation", "the body must be a JSON object")
    return found


def _flag(body: dict[str, Any], name: str) -> bool:
    """A flag that is set if it is not given."""
    value = body.get(name, True)
    if value is None:
        return True
    if not isinstance(value, bool):
        raise _invalid(f"{name}: must be a bool")
    return value


def _check_count(name: str, found: list[Any], most: int) -> None:
    if not found:
        raise _Refused(400, "Empty", f"{name}: an empty array, must have at least one element")
    if len(found) > most:
        raise _Refused(413, "Validation", f"{name}: {len(found)} elements, at most {most}")


def _check_text(name: str, text: str) -> None:
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise _invalid(f"{name}: a surrogate without its other half")


def _texts(inputs: object, most: int) -> list[str]:
    if isinstance(inputs, list):
        _check_count("inputs", inputs, most)
    texts: list[Any] = inputs if isinstance(inputs, list) else [inputs]
    for number, text in enumerate(texts):
        name = f"inputs[{number}]" if isinstance(inputs, list) else "inputs"
        if not isinstance(text, str):
            raise _invalid(f"{name}: must be a string" + (" or an array of strings" if name == "inputs" else ""))
        if not text:
            raise _Refused(400, "Empty", f"{name}: 0 characters, at least 1")
        _check_text(name, text)
    return texts


def _rows(ids: object, most: int) -> list[list[int]]:
    if not isinstance(ids, list):
        raise _invalid("ids: must be an array of token ids, or an array of those")
    if not ids:
        raise _Refused(400, "Empty", "ids: an empty array, must have at least one element")
    rows = ids if isinstance(ids[0], list) else [ids]
    _check_count("ids", rows, most)
    for row in rows:
        if not isinstance(row, list) or not all(type(each) is int and 0 <= each < _ID_LIMIT for each in row):
            raise _invalid(f"ids: token ids must be integers, 0 or more and below {_ID_LIMIT}")
        if not row:
            raise _Refused(400, "Empty", "ids: 0 ids, at least 1")
    return rows


def _info(models: ServedModels, dtype: str) -> dict[str, object]:
    model = models.all()[0]
    card = model.card
    return {
        "max_batch_requests": None,
        **facts(models, dtype),
        "model_type": {model_type(card): _about(card)},
        "served_model_name": card.name,
        "repeatable": model.repeatable,
        "sha": None,
        "docker_label": None,
    }


def _about(card: ModelCard) -> dict[str, object]:
    if card.task == "embed_sparse":
        return {"pooling": "splade"}
    if card.task != "embed":
        by_id = {str(i): label for i, label in enumerate(card.labels)}
        return {"id2label": by_id, "label2id": {label: int(i) for i, label in by_id.items()}}
    try:
        return {"pooling": read_pipeline(Path(card.path)).pooling}
    except ModelError as error:
        raise CallFailed(StatusCode.FAILED_PRECONDITION, str(error)) from None
