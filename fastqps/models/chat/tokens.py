"""The token ids of conversations, in the processes of the slow tokenizers and in an ``Engine``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fastqps.models.chat.card import ChatCard
from fastqps.models.chat.conversation import Message, Mode
from fastqps.models.chat.spellings import Spellings, special_tokens
from fastqps.models.tokenizers.fixed_tokens import Fixed
from fastqps.models.tokenizers.tokenizer import Cut, Encoded, Tokenizer

if TYPE_CHECKING:
    from fastqps.models.chat.template import ChatTemplate

_MARKS = range(0x100000, 0x10FFFD)  # private characters


class ChatTokens:
    """Conversations by a model's chat template and tokenizer.

    Special tokens are those that the template puts. In contents none is looked for.
    """

    def __init__(self, card: ChatCard, tokenizer: Tokenizer) -> None:
        self._card = card
        self._tokenizer = tokenizer
        self._special = special_tokens(tokenizer.source)
        self._spellings = Spellings(self._special)

    def encode(
        self,
        messages: Sequence[Message],
        mode: Mode,
        variables: Mapping[str, Any],
        max_tokens: int | None = None,
        cut: Cut = "counted",
    ) -> Encoded:
        """The ids, cut at ``max_tokens``. ``ValueError``: the template or the tokenizer refuses the conversation."""
        text, tokens = self._by_table(messages, mode, variables) or self._rendered(messages, mode, variables)
        return self._tokenizer.encode_fixed(text, tokens, max_tokens, cut)

    def table_ids(self, messages: Sequence[Message], mode: Mode, variables: Mapping[str, Any]) -> list[int]:
        """The ids of what is in the table alone: no template runs. ``ValueError`` for anything else."""
        found = self._by_table(messages, mode, variables)
        if not found:
            raise ValueError("the conversation is in no table of the chat template, and its template does not run here")
        return self._tokenizer.encode_fixed(*found).ids

    def _by_table(
        self, messages: Sequence[Message], mode: Mode, variables: Mapping[str, Any]
    ) -> tuple[bytes, list[Fixed]] | None:
        if not self._card.table:
            return None
        given = [(message.role, message.content) for message in messages]
        return self._card.table.native.render(given, mode, json.dumps(variables))

    @cached_property
    def template(self) -> ChatTemplate:
        """Renders what is not in the table."""
        from fastqps.models.chat.template import ChatTemplate  # late: few conversations need Jinja

        return ChatTemplate(self._card.template, dict(self._card.names))

    def _rendered(
        self, messages: Sequence[Message], mode: Mode, variables: Mapping[str, Any]
    ) -> tuple[bytes, list[Fixed]]:
        """By the template itself. Where a special token could begin in a content, a mark stands for its first
        character."""
        foreign = (self._card.template, json.dumps(variables, ensure_ascii=False))
        marks = _Marks("".join((*foreign, *(message.content for message in messages))), self._spellings)
        marked = [Message(message.role, marks.put(message.content)) for message in messages]
        text, tokens = bytearray(), []
        for i, part in enumerate(self._spellings.split(self.template.render(marked, mode, variables))):
            if i % 2:
                token = self._special[part]
                tokens.append((len(text), token["id"], token["lstrip"], token["rstrip"]))
            else:
                text += marks.taken(part).encode(errors="replace")
        return bytes(text), tokens


class _Marks:
    """Characters that stand for the first ones of special tokens, and are nowhere in what is rendered."""

    def __init__(self, rendered: str, spellings: Spellings) -> None:
        self._spellings = spellings
        present = set(rendered)
        free = (chr(point) for point in _MARKS if chr(point) not in present)
        self._of = dict(zip(spellings.firsts, free, strict=False))
        if len(self._of) < len(spellings.firsts):
            raise ValueError("the messages contain every private character of Unicode's plane 16; leave some out")

    def put(self, content: str) -> str:
        characters = list(content)
        for at in self._spellings.beginnings(content):
            characters[at] = self._of[content[at]]
        return "".join(characters)

    def taken(self, text: str) -> str:
        return text.translate({ord(mark): first for first, mark in self._of.items()})
