"""Added tokens, as the ``tokenizers`` package keeps them beside a model's vocabulary, and templates of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fastqps.errors import ModelError
from fastqps.models.tokenizers.keys import CONFIG

_FLAGS = ("single_word", "lstrip", "rstrip")


class Token(dict[str, Any]):
    """Content and flags, as in tokenizer.json but for the id. ``normalized`` None: the package's default."""


def token(content: str, *, special: bool, lstrip: bool = False, normalized: bool | None = None) -> Token:
    flags = {"single_word": False, "lstrip": lstrip, "rstrip": False}
    return Token(content=content, **flags, normalized=normalized, special=special)


def read_token(where: str, entry: Any) -> Token:
    """The token of a JSON object. ``ModelError``, naming ``where``, if it is none."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("content"), str):
        raise ModelError(f"{where}: {entry!r} is not an added token: an object with a content")
    flags = {key: entry[key] for key in (*_FLAGS, "normalized", "special") if key in entry}
    for key, value in flags.items():
        if not isinstance(value, bool):
            raise ModelError(f"{where}: {key} {value!r} of the token {entry['content']!r} is neither true nor false")
    return Token(token(entry["content"], special=False) | flags)


def settled(token: Token) -> Token:
    """The token with the package's default: it is looked for in the normalised text unless it is special."""
    return token if token["normalized"] is not None else Token(token, normalized=not token["special"])


Part = dict[str, Any]
Named = Mapping[str, str | Token | None]  # special tokens by their names


def text_of(token: str | Token | None) -> str | None:
    return token["content"] if isinstance(token, dict) else token


def template(single: list[str], pair: list[str], ids: Mapping[str, int]) -> Part:
    def piece(spelled: str) -> Part:
        name, _, kind = spelled.partition(":")
        sequence = name.startswith("$")
        return {"Sequence" if sequence else "SpecialToken": {"id": name.lstrip("$"), "type_id": int(kind or 0)}}

    return {
        "type": "TemplateProcessing",
        "single": [piece(each) for each in single],
        "pair": [piece(each) for each in pair],
        "special_tokens": {name: {"id": name, "ids": [number], "tokens": [name]} for name, number in ids.items()},
    }


def flag(options: Mapping[str, Any], key: str, default: bool) -> bool:
    value = options.get(key, default)
    if not isinstance(value, bool):
        raise ModelError(f"{CONFIG}: {key} {value!r} is neither true nor false")
    return value


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
            token_id = self.find(content)
            if token_id is None:
                token_id, free = free, free + 1
            self._ids[content] = token_id
            self.by_id[token_id] = Token(settled(each), special=content in self._special)

    def find(self, content: str) -> int | None:
        return self._ids.get(content, self.vocabulary(content))

    def listed(self) -> list[dict[str, Any]]:
        """The added tokens of tokenizer.json. Raises ``ModelError`` if the package would read other ids from that
        list."""
        tokens = [self.by_id[i] for i in sorted(self.by_id)]
        again = AddedTokens(self.vocabulary, self.size)
        again.add(tokens)
        if again.by_id != self.by_id:
            raise ModelError("the added tokens cannot keep their ids: the vocabulary of tokenizer.json has holes")
        return [{"id": i, **self.by_id[i]} for i in sorted(self.by_id)]
