"""Added tokens, as the ``tokenizers`` package keeps them beside a model's vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fastqps.errors import ModelError

_FLAGS = ("single_word", "lstrip", "rstrip")


class Token(dict[str, Any]):
    """Content and flags, as in tokenizer.json but for the id. ``normalized`` None: the package's default."""


def token(content: str, *, special: bool, lstrip: bool = False, normalized: bool | None = None) -> Token:
    flags = {"single_word": False, "lstrip": lstrip, "rstrip": False}
    return Token(content=content, **flags, normalized=normalized, special=special)


def read_token(where: str, found: Any) -> Token:
    """The token of a JSON object. ``ModelError``, naming ``where``, if it is none."""
    if not isinstance(found, Mapping) or not isinstance(found.get("content"), str):
        raise ModelError(f"{where}: {found!r} is not an added token: an object with a content")
    flags = {key: found[key] for key in (*_FLAGS, "normalized", "special") if key in found}
    for key, value in flags.items():
        if not isinstance(value, bool):
            raise ModelError(f"{where}: {key} {value!r} of the token {found['content']!r} is neither true nor false")
    return Token(token(found["content"], special=False) | flags)


def settled(found: Token) -> Token:
    """The token with the package's default: it is looked for in the normalised text unless it is special."""
    return found if found["normalized"] is not None else Token(found, normalized=not found["special"])


@dataclass
class AddedTokens:
    """Tokens by id. ``vocabulary`` knows the ids of the model's own ``size`` entries."""

    vocabulary: Callable[[str], int | None]
    size: int
    by_id: dict[int, Token] = field(default_factory=dict)
    _ids: dict[str, int] = field(default_factory=dict)
    _special: set[str] = field(default_factory=set)

    def add(self, tokens: Iterable[Token]) -> None:
        """Ids are the vocabulary's, else one after the other behind all there are. Later flags replace earlier ones.

        A token that was special once stays special, as it does in the package.
        """
        free = max(self.size, max(self.by_id, default=-1) + 1)
        for each in tokens:
            content = each["content"]
            if not content:
                continue
            if each["special"]:
                self._special.add(content)
            found = self.find(content)
            if found is None:
                found, free = free, free + 1
            self._ids[content] = found
            self.by_id[found] = Token(settled(each), special=content in self._special)

    def find(self, content: str) -> int | None:
        return self._ids.get(content, self.vocabulary(content))

    def listed(self) -> list[dict[str, Any]]:
        """The added tokens of tokenizer.json. Raises ``ModelError`` if the package would read other ids from that
        list."""
        found = [self.by_id[i] for i in sorted(self.by_id)]
        again = AddedTokens(self.vocabulary, self.size)
        again.add(found)
        if again.by_id != self.by_id:
            raise ModelError("the added tokens cannot keep their ids: the vocabulary of tokenizer.json has holes")
        return [{"id": i, **self.by_id[i]} for i in sorted(self.by_id)]
