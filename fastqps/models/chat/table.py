"""What a chat template does to conversations, as a table: fixed pieces between contents.

A conversation's messages, without a system message in front, have gaps before, between and behind them. A gap's key
(``_core.chat_keys``) is all that its piece may depend on. csrc/text/chat_template.cpp renders conversations by the
table.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fastqps._core import WHITE_SPACE, ChatTemplate

STRIPS = ("", WHITE_SPACE, "\n", " ", " \n")


@dataclass(frozen=True)
class Part:
    """``kind``: text; token: a special token, ``text`` as it is spelled; system: the content of the system message in
    front; time: now, in the format ``text``. ``before`` and ``after``: of a token, whether it takes the white space
    there; of a system message, the place in ``STRIPS`` of what is stripped from it."""

    kind: str
    text: str = ""
    id: int = 0
    before: int = 0
    after: int = 0


@dataclass(frozen=True)
class Piece:
    """``end`` and ``begin``: the places in ``STRIPS`` of the characters that are stripped from the end of the content
    in front of it and from the beginning of the content behind it."""

    parts: tuple[Part, ...] = ()
    end: int = 0
    begin: int = 0


@dataclass(frozen=True)
class ChatTable:
    """``gaps``: pairs of a key and the place of its piece. ``flags``: (variable, value) of the variants behind the
    first. ``variables``: all that the template looks at. ``questions``: (role, text): conversations of which a content
    of the role has the text, or "": is empty or white space alone, are not in the table."""

    pieces: tuple[Piece, ...]
    gaps: tuple[tuple[int, int], ...]
    flags: tuple[tuple[str, bool], ...]
    variables: tuple[str, ...]
    questions: tuple[tuple[str, str], ...]
    strips: tuple[str, ...] = STRIPS

    @cached_property
    def native(self) -> ChatTemplate:
        """What renders conversations by the table."""
        return ChatTemplate(json.dumps(dataclasses.asdict(self)))

    @staticmethod
    def of(fields: Mapping[str, Any]) -> ChatTable:
        """The table whose fields ``dataclasses.asdict`` has made."""
        pieces = tuple(
            Piece(**{**piece, "parts": tuple(Part(**part) for part in piece["parts"])}) for piece in fields["pieces"]
        )
        return ChatTable(**{**fields, "pieces": pieces})
