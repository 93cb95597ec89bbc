"""/tokenize and /detokenize in the form of vLLM's API: of a prompt, or of a conversation, for any served model."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from fastqps import _front
from fastqps.frontdoor.default_tokenizer import DefaultTokenizer
from fastqps.frontdoor.rare_calls import CallFailed
from fastqps.frontdoor.rare_routes import RareRoute, Request, Response, json_response
from fastqps.frontdoor.served import ServedModels
from fastqps.models.card import ModelCard
from fastqps.models.chat.conversation import Message, Mode

T = TypeVar("T")


class _RefusedError(Exception):
    """Ends a request with this status. ``param``: the field; empty: the body as a whole."""

    def __init__(self, param: str, reason: str, status: int = 400) -> None:
        super().__init__(f"{param}: {reason}" if param else reason)
        self.param, self.status = param, status


class VllmTokens:
    """One thread calls it: that of slow rare calls."""

    def __init__(self, models: ServedModels, tokenizer: DefaultTokenizer) -> None:
        self._models = models
        self._tokenizer = tokenizer

    def route(self) -> RareRoute:
        """/detokenize. /tokenize is text-embeddings-inference's, too, which hands over the bodies that are ours."""
        return RareRoute("POST", "/detokenize", self._answering(self._text), slow=True, protocol="openai")

    @staticmethod
    def is_ours(body: dict[str, Any]) -> bool:
        named = body.get("model") is not None  # text-embeddings-inference has one model
        return "prompt" in body or "messages" in body or (named and "inputs" not in body)

    def tokenize(self, request: Request) -> Response:
        return self._answering(self._ids)(request)

    @staticmethod
    def _answering(answer: Callable[[bytes, dict[str, Any]], dict[str, Any]]) -> Callable[[Request], Response]:
        def respond(request: Request) -> Response:
            try:
                return json_response(answer(request.body, _fields(request.body)))
            except _RefusedError as error:
                kind, code = "invalid_request_error", "model_not_found" if error.status == 404 else None
                said = {"message": str(error), "type": kind, "param": error.param or None, "code": code}
                return json_response({"error": said}, error.status)

        return respond

    def _card(self, body: dict[str, Any]) -> ModelCard:
        name = body.get("model") or ""
        found = self._models.find(name) if isinstance(name, str) else None
        if not found:
            raise _RefusedError("model", f"{str(name)[:200]!r} is not served", 404)
        return found.card

    def _text(self, _: bytes, body: dict[str, Any]) -> dict[str, Any]:
        _check_names(body, ("tokens",))
        card, ids = self._card(body), body.get("tokens")
        if not isinstance(ids, list) or not ids or not all(type(i) is int and 0 <= i < card.vocab_size for i in ids):
            raise _RefusedError("tokens", f"must be an array of token ids below {card.vocab_size}")
        return {"prompt": _tried("tokens", lambda: self._tokenizer.of(card).decode(ids, skip_special_tokens=False))}

    def _ids(self, whole: bytes, body: dict[str, Any]) -> dict[str, Any]:
        if "messages" in body:
            messages, mode, variables = _read_chat(whole)
            card = self._card(body)
            known = json.loads(variables) if variables else {}
            ids = _tried("messages", lambda: self._tokenizer.chat_ids(card, messages, mode, known))
        else:
            if body.get("prompt") is None:
                raise _RefusedError("prompt", "must be given, or messages")
            _check_names(body, ("prompt", "add_special_tokens", "return_token_strs"))
            card, prompt = self._card(body), body["prompt"]
            if not isinstance(prompt, str):
                raise _RefusedError("prompt", "must be a string")
            special = _flag(body, "add_special_tokens", True)
            ids = _tried("prompt", lambda: self._tokenizer.ids(card, prompt, special_tokens=special))
        tokenizer = self._tokenizer.of(card)
        spelled = [tokenizer.token(each) for each in ids] if _flag(body, "return_token_strs", False) else None
        longest = len(card.prefix_ids) + card.max_input_tokens + card.max_output_tokens
        return {"count": len(ids), "max_model_len": longest, "tokens": ids, "token_strs": spelled}


def _fields(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _RefusedError("", f"the body is not valid JSON: {error}") from None
    if not isinstance(found, dict):
        raise _RefusedError("", "the body must be a JSON object")
    return found


def _check_names(body: dict[str, Any], known: tuple[str, ...]) -> None:
    for name, value in body.items():
        if name not in (*known, "model") and value is not None:
            raise _RefusedError(name[:200], "is not a field of this request")


def _flag(body: dict[str, Any], name: str, default: bool) -> bool:
    value = body.get(name)
    if not isinstance(value, bool | None):
        raise _RefusedError(name, "must be a bool")
    return default if value is None else value


def _read_chat(body: bytes) -> tuple[list[Message], Mode, str]:
    try:
        pairs, mode, variables = _front.read_chat(body)
    except ValueError as error:
        param, reason = error.args
        raise _RefusedError(param or "", reason) from None
    return [Message(role, content) for role, content in pairs], mode, variables


def _tried(param: str, make: Callable[[], T]) -> T:
    try:
        return make()
    except (CallFailed, RecursionError, TypeError, ValueError) as error:
        raise _RefusedError(param, str(error)) from None
