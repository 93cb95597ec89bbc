"""Texts with special tokens at known places, by the `tokenizers` package.

The package knows no places. Its special tokens get names that nobody can guess, and the text has those where its
tokens stand, so that no token is found that is spelled in the text itself.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence

from fastqps.models.tokenizers.vocabulary import content_of, failures, load_package

Fixed = tuple[int, int, bool, bool]
"""(in front of this byte of the text, id, takes the white space before, behind)."""


class FixedPackage:
    """``source`` as ``Tokenizer.from_source`` takes it."""

    def __init__(self, source: str) -> None:
        file, secret = json.loads(content_of(source)), secrets.token_hex(16)
        added = file.get("added_tokens") or []
        self._names = {each["id"]: f"\ufdd0{secret}-{each['id']}\ufdd1" for each in added if each["special"]}
        for each in added:
            each["content"] = self._names.get(each["id"], each["content"])
        file["truncation"] = file["padding"] = None
        self._package = load_package(json.dumps(file))
        # Tokens that have left the vocabulary get new ids, and so do those behind them.
        self._ids = {self._package.token_to_id(each["content"]): each["id"] for each in added}

    def encode(self, text: bytes, tokens: Sequence[Fixed]) -> list[int]:
        """All ids. ``ValueError`` where the package cannot encode the text."""
        parts, done = [], 0
        for at, token_id, *_ in tokens:
            parts += [text[done:at].decode(errors="replace"), self._names[token_id]]
            done = at
        with failures():
            ids = self._package.encode("".join(parts) + text[done:].decode(errors="replace"), add_special_tokens=False)
        return [self._ids.get(each, each) for each in ids.ids]
