"""The special tokens of a tokenizer, and where they are spelled in texts."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Any

from fastqps.models.tokenizers.vocabulary import content_of


def special_tokens(source: str) -> dict[str, dict[str, Any]]:
    """Special tokens by their texts. ``source``: as ``Tokenizer.from_source`` takes it."""
    listed = json.loads(content_of(source)).get("added_tokens") or ()
    return {each["content"]: each for each in listed if each["special"] and each["content"]}


class Spellings:
    """Finds some texts, none of them empty, in others.

    The cost is that of a text's characters and of the lengths that the wanted ones have, not of their number: there are
    tokenizers with thousands of special tokens.
    """

    def __init__(self, wanted: Iterable[str]) -> None:
        self._wanted = sorted(wanted)
        self._known = frozenset(self._wanted)
        self.firsts = sorted({text[0] for text in self._wanted})
        self._begin = re.compile("[" + "".join(map(re.escape, self.firsts)) + "]" if self.firsts else "(?!)")
        lengths: dict[str, set[int]] = {first: set() for first in self.firsts}
        for text in self._wanted:
            lengths[text[0]].add(len(text))
        self._lengths = {first: sorted(found, reverse=True) for first, found in lengths.items()}
        self._longest = max(map(len, self._wanted), default=0)

    def split(self, text: str) -> Iterator[str]:
        """The text in parts: those at odd places are wanted ones, the longest at its place."""
        done = at = 0
        while begins := self._begin.search(text, at):
            at = begins.start()
            found = self._at(text, at)
            if found:
                yield text[done:at]
                yield found
            at += len(found) or 1
            done = at if found else done
        yield text[done:]

    def beginnings(self, text: str) -> Iterator[int]:
        """Where one is spelled, or begins at the end of the text or of what is left without its white space."""
        for begins in self._begin.finditer(text):
            if self._at(text, begins.start()):
                yield begins.start()
        for end in {len(text), len(text.rstrip())}:
            for at in range(max(0, end - self._longest + 1), end):
                if text[at] in self._lengths and self._is_beginning(text[at:end]):
                    yield at

    def _at(self, text: str, at: int) -> str:
        """The longest one that is spelled there; "": none."""
        for length in self._lengths[text[at]]:
            if (found := text[at : at + length]) in self._known:
                return found
        return ""

    def _is_beginning(self, text: str) -> bool:
        place = bisect_left(self._wanted, text)
        return place < len(self._wanted) and self._wanted[place].startswith(text)
