"""The token ids of conversations, in the processes of the slow tokenizers and in an ``Engine``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fastqps.models.chat.card import ChatCard
from fastqps.models.chat.conversation import Message, Mode
from fastqps.models.tokenizers.fixed_tokens import Fixed
from fastqps.models.tokenizers.tokenizer import Cut, Encoded, Tokenizer
from fastqps.models.tokenizers.vocabulary import content_of

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
        listed = json.loads(content_of(tokenizer.source)).get("added_tokens") or ()
        self._special = {each["content"]: each for each in listed if each["special"]}
        longest_first = sorted(self._special, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")

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
        marks = _Marks("".join(message.content for message in messages), self._special)
        marked = [Message(message.role, marks.put(message.content)) for message in messages]
        text = self.template.render(marked, mode, variables)
        parts, tokens, done = [b""], [], 0
        for found in self._pattern.finditer(text):
            parts.append(marks.taken(text[done : found.start()]).encode(errors="replace"))
            token = self._special[found[0]]
            tokens.append((sum(map(len, parts)), token["id"], token["lstrip"], token["rstrip"]))
            done = found.end()
        return b"".join(parts) + marks.taken(text[done:]).encode(errors="replace"), tokens


class _Marks:
    """Characters that stand for the first ones of special tokens, and are in none of the contents."""

    def __init__(self, contents: str, special: Mapping[str, Any]) -> None:
        self._special = special
        present, firsts = set(contents), sorted({text[0] for text in special})
        free = (chr(point) for point in _MARKS if chr(point) not in present)
        self._of = dict(zip(firsts, free, strict=False))
        if len(self._of) < len(firsts):
            raise ValueError("the messages contain every private character of Unicode's plane 16; leave some out")

    def put(self, content: str) -> str:
        characters = list(content)
        for at in self._beginnings(content):
            characters[at] = self._of[content[at]]
        return "".join(characters)

    def taken(self, text: str) -> str:
        return text.translate({ord(mark): first for first, mark in self._of.items()})

    def _beginnings(self, content: str) -> Iterator[int]:
        """Where a special token is spelled, or begins at the end of what a template leaves of the content."""
        end = len(content.rstrip())
        for text in self._special:
            at = content.find(text)
            while at >= 0:
                yield at
                at = content.find(text, at + 1)
            for size in range(1, min(len(text), end + 1)):
                if content.endswith(text[:size], 0, end):
                    yield end - size
                if content.endswith(text[:size]):
                    yield len(content) - size
