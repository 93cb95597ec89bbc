"""The tokenizers of served models, for the rare calls that show a text's tokens or decode ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fastqps.errors import ModelError, StatusCode
from fastqps.frontdoor.rare_calls import CallFailed
from fastqps.frontdoor.served import ServedModels
from fastqps.models.card import ModelCard
from fastqps.models.card_tokenizer import load_tokenizer
from fastqps.models.chat.conversation import Message, Mode
from fastqps.models.chat.tokens import ChatTokens
from fastqps.models.tokenizers.tokenizer import Piece, Tokenizer

CHARACTERS_PER_TOKEN = 250  # a text that may have n tokens may have so many characters for each


@dataclass(frozen=True)
class _Loaded:
    card: ModelCard
    tokenizer: Tokenizer

    @cached_property
    def chat(self) -> ChatTokens:
        """For models with a chat template."""
        assert self.card.chat
        return ChatTokens(self.card.chat, self.tokenizer)


class DefaultTokenizer:
    """The tokenizers of the default model and of those that are asked for by name. Each is loaded at its model's first
    call and after a reload, and kept. One thread calls it: that of slow rare calls, because a text or the loading may
    take seconds.

    What is wrong with a call is a ``CallFailed``, whose message begins with the field.
    """

    def __init__(self, models: ServedModels) -> None:
        self._models = models
        self._loaded: dict[str, _Loaded] = {}  # by the name of a served model

    def pieces(self, text: str, prompt_name: str | None, *, special_tokens: bool) -> list[Piece]:
        """The tokens of a text behind its prompt, with their places in both together."""
        card = self._models.all()[0].card
        tokenizer = self.of(card)
        try:
            worded = card.worded(text, prompt_name or "")
        except ValueError as error:
            raise CallFailed(StatusCode.INVALID_ARGUMENT, str(error)) from None
        most = card.max_input_tokens * CHARACTERS_PER_TOKEN
        if not 0 < len(text) <= most:
            raise CallFailed(StatusCode.INVALID_ARGUMENT, f"inputs: {len(text)} characters, must have 1 to {most}")
        return tokenizer.pieces("".join(worded), special_tokens=special_tokens)

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        """The text of token ids."""
        tokenizer = self.of(self._models.all()[0].card)
        if not ids:
            raise CallFailed(StatusCode.INVALID_ARGUMENT, "ids: 0 ids, at least 1")
        return tokenizer.decode(ids, skip_special_tokens=skip_special_tokens)

    def ids(self, card: ModelCard, text: str, *, special_tokens: bool) -> list[int]:
        """The ids of a text, by the tokenizer of any served model."""
        most = card.max_input_tokens * CHARACTERS_PER_TOKEN
        if len(text) > most:
            raise CallFailed(StatusCode.INVALID_ARGUMENT, f"{len(text)} characters, must have at most {most}")
        return [piece.id for piece in self.of(card).pieces(text, special_tokens=special_tokens)]

    def chat_ids(self, card: ModelCard, messages: Sequence[Message], mode: Mode, variables: Any) -> list[int]:
        """The ids of a conversation that is in the table of the model's chat template."""
        if not card.chat:
            why = "has no chat template" if card.generates else f"{card.traits.does} and takes no conversation"
            raise CallFailed(StatusCode.INVALID_ARGUMENT, f"the model '{card.name}' {why}")
        most = card.max_input_tokens * CHARACTERS_PER_TOKEN
        if not messages or sum(len(message.content) for message in messages) > most:
            raise CallFailed(StatusCode.INVALID_ARGUMENT, f"must be one message at least, of {most} characters at most")
        return self._of(card).chat.table_ids(messages, mode, dict(variables))

    def of(self, card: ModelCard) -> Tokenizer:
        """The tokenizer of a served model."""
        return self._of(card).tokenizer

    def _of(self, card: ModelCard) -> _Loaded:
        loaded = self._loaded.get(card.name)
        if not loaded or loaded.card.version != card.version:
            try:
                tokenizer = load_tokenizer(card)
            except ModelError as error:
                raise CallFailed(StatusCode.FAILED_PRECONDITION, str(error)) from None
            if not tokenizer:
                raise CallFailed(StatusCode.FAILED_PRECONDITION, f"the model '{card.name}' has no tokenizer")
            loaded = self._loaded[card.name] = _Loaded(card, tokenizer)
        return loaded
