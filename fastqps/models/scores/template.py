"""The text that is made of an input: fixed parts, and the texts in their places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

TRIMMED = " trimmed"
Part = tuple[str, str]
"""A fixed text, and what follows it: "first" or "second", the text of that name, or with " trimmed" without the white
space around it, or "", nothing."""


@dataclass(frozen=True)
class TextTemplate:
    """The text that is made of an input behind the prompt ``name``; "": of a request that names none.

    The parts are those of one text, and of a pair, which become one. (): such an input is refused.
    """

    name: str
    text: tuple[Part, ...]
    pair: tuple[Part, ...]


def filled(parts: Sequence[Part], first: str, second: str = "") -> str:
    """The text that the parts make of an input."""
    texts = {"first": first, "second": second, "": ""}
    texts |= {f"{slot}{TRIMMED}": text.strip() for slot, text in texts.items() if slot}
    return "".join(text for fixed, slot in parts for text in (fixed, texts[slot]))
