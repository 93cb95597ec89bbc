"""/tokenize and /detokenize in the form of vLLM's API: of a prompt, or of a conversation, for any served model."""

from __future__ import annotations

import json
from typing import Any

from fastqps.frontdoor.default_tokenizer import DefaultTokenizer
from fastqps.frontdoor.rare_calls import CallFailed
from fastqps.frontdoor.rare_routes import RareRoute, Request, Response, json_response
from fastqps.frontdoor.served import ServedModels
from fastqps.models.card import ModelCard
from fastqps.models.chat.conversation import Message, Mode

_PLAIN_FIELDS = ("model", "prompt", "messages", "tokens", "chat_template_kwargs")


class _RefusedError(Exception):
    """Ends a request with this status. ``param``: the field."""

    def __init__(self, param: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.param, self.status = param, status


class VllmTokens:
    """One thread calls it: that of slow rare calls."""

    def __init__(self, models: ServedModels, tokenizer: DefaultTokenizer) -> None:
        self._models = models
        self._tokenizer = tokenizer

    def route(self) -> RareRoute:
        """/detokenize. /tokenize is text-embeddings-inference's, too, which hands over the bodies that are ours."""

        def answer(request: Request) -> Response:
            return self._answer(_body(request))

        return RareRoute("POST", "/detokenize", answer, slow=True, protocol="openai")

    @staticmethod
    def is_ours(body: dict[str, Any]) -> bool:
        return "prompt" in body or "messages" in body

    def tokenize(self, body: dict[str, Any]) -> Response:
        return self._answer(body)

    def _answer(self, body: dict[str, Any] | None) -> Response:
        try:
            if body is None:
                raise _RefusedError("", "the body must be a JSON object")
            card = self._card(body)
            return json_response(self._text(card, body) if "tokens" in body else self._ids(card, body))
        except _RefusedError as error:
            kind, code = "invalid_request_error", "model_not_found" if error.status == 404 else None
            said = {"message": str(error), "type": kind, "param": error.param or None, "code": code}
            return json_response({"error": said}, error.status)

    def _card(self, body: dict[str, Any]) -> ModelCard:
        for name, value in body.items():
            if name not in _PLAIN_FIELDS and not isinstance(value, bool | None):
                raise _RefusedError(name, f"{name}: must be a bool")
        name = body.get("model") or ""
        found = self._models.find(name) if isinstance(name, str) else None
        if not found:
            raise _RefusedError("model", f"model: {str(name)[:200]!r} is not served", 404)
        return found.card

    def _text(self, card: ModelCard, body: dict[str, Any]) -> dict[str, Any]:
        ids = body["tokens"]
        if not isinstance(ids, list) or not ids or not all(type(i) is int and 0 <= i < card.vocab_size for i in ids):
            raise _RefusedError("tokens", f"tokens: must be an array of token ids below {card.vocab_size}")
        return {
            "prompt": self._tried("tokens", lambda: self._tokenizer.of(card).decode(ids, skip_special_tokens=False))
        }

    def _ids(self, card: ModelCard, body: dict[str, Any]) -> dict[str, Any]:
        if "messages" in body:
            ids = self._tried("messages", lambda: self._chat(card, body))
        else:
            prompt, special = body["prompt"], body.get("add_special_tokens", True)
            if not isinstance(prompt, str):
                raise _RefusedError("prompt", "prompt: must be a string")
            ids = self._tried("prompt", lambda: self._tokenizer.ids(card, prompt, special_tokens=special is not False))
        tokenizer = self._tokenizer.of(card)
        spelled = [tokenizer.token(each) for each in ids] if body.get("return_token_strs") else None
        longest = len(card.prefix_ids) + card.max_input_tokens + card.max_output_tokens
        return {"count": len(ids), "max_model_len": longest, "tokens": ids, "token_strs": spelled}

    def _chat(self, card: ModelCard, body: dict[str, Any]) -> list[int]:
        given, prompts, continues = (
            body["messages"],
            body.get("add_generation_prompt"),
            body.get("continue_final_message"),
        )
        if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
            raise _RefusedError("messages", "messages: must be an array of messages")
        if continues and prompts:
            raise _RefusedError("continue_final_message", "it cannot be set together with add_generation_prompt")
        messages = [_message(each) for each in given]
        mode: Mode = "continue" if continues else "closed" if prompts is False else "generate"
        return self._tokenizer.chat_ids(card, messages, mode, body.get("chat_template_kwargs") or {})

    @staticmethod
    def _tried(param: str, make: Any) -> Any:
        try:
            return make()
        except (CallFailed, RecursionError, TypeError, ValueError) as error:
            raise _RefusedError(param, f"{param}: {error}") from None


def _body(request: Request) -> dict[str, Any] | None:
    try:
        body = json.loads(request.body)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _message(given: dict[str, Any]) -> Message:
    role, content = given.get("role"), given.get("content")
    if isinstance(content, list):
        texts: list[Any] = [part.get("text") if isinstance(part, dict) else part for part in content]
        content = "\n".join(texts) if all(isinstance(text, str) for text in texts) else None
    if role not in ("system", "developer", "user", "assistant") or not isinstance(content, str):
        raise ValueError("a message needs a role of system, developer, user and assistant, and a text as its content")
    return Message("system" if role == "developer" else role, content)
