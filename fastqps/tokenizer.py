"""Text to token ids, from a model's own tokenizer.json: natively where the family is native, else by `tokenizers`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike, fspath
from typing import Any

from fastqps._core import Detokenizer, NativeTokenizer

Item = str | tuple[str, str]


@dataclass(frozen=True, slots=True)
class Encoded:
    """One text or pair as ids, special tokens included."""

    ids: list[int]
    n_total: int
    """Ids that the whole text has; more than len(ids) when it was cut."""
    first_len: int
    """Leading ids with type id 0; the others, a pair's second text, have `Tokenizer.second_type_id`."""

    @property
    def truncated(self) -> bool:
        return len(self.ids) < self.n_total


class Tokenizer:
    """The same ids either way; `native` tells which it is, `why_not_native` why it is not."""

    def __init__(self, path: str, max_tokens: int | None, add_special_tokens: bool) -> None:
        self.path = path
        self.add_special_tokens = add_special_tokens
        self.why_not_native = ""
        self._native: NativeTokenizer | None = None
        try:
            self._native = NativeTokenizer(path, add_special_tokens)
        except ValueError as reason:
            self.why_not_native = str(reason)
        self.truncation = max_tokens if max_tokens is not None else self._file_truncation()

    @classmethod
    def from_file(
        cls, path: str | PathLike[str], *, max_tokens: int | None = None, add_special_tokens: bool = True
    ) -> Tokenizer:
        """Read a tokenizer.json. Its padding is ignored; its truncation is honoured unless `max_tokens` replaces it.

        Without `add_special_tokens` none are put around a text (a prompt behind a shared prefix); those that are
        spelled in a text are still found.

        Raises OSError when the file cannot be read and ValueError when it is no tokenizer.
        """
        with open(path, "rb"):
            return cls(fspath(path), max_tokens, add_special_tokens)

    @property
    def native(self) -> bool:
        return self._native is not None

    @property
    def second_type_id(self) -> int:
        """Type id of a pair's ids after `first_len`."""
        return self._native.second_type_id if self._native else 1

    def encode(self, text: str) -> list[int]:
        if self._native:
            return self._native.encode(text, self.truncation)
        return list(self._package.encode(text, add_special_tokens=self.add_special_tokens).ids)

    def encode_pair(self, first: str, second: str) -> tuple[list[int], int]:
        """(ids, n): the first n ids have type id 0, the others `second_type_id`."""
        if self._native:
            return self._native.encode_pair(first, second, self.truncation)
        found = self._package.encode(first, second, add_special_tokens=self.add_special_tokens)
        return list(found.ids), _first_len(found)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        if self._native:
            return self._native.encode_batch(list(texts), self.truncation)
        found = self._package.encode_batch(list(texts), add_special_tokens=self.add_special_tokens)
        return [list(each.ids) for each in found]

    def encode_items(self, items: Sequence[Item]) -> list[Encoded]:
        """Texts and pairs mixed, each with what a caller needs to refuse a long text instead of cutting it."""
        if self._native:
            return [Encoded(*found) for found in self._native.encode_items(items, self.truncation)]
        whole = self._whole.encode_batch(list(items), add_special_tokens=self.add_special_tokens)
        return [self._cut(item, found) for item, found in zip(items, whole, strict=True)]

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        if self._detokenizer and skip_special_tokens:
            return self._detokenizer.decode(ids)
        return str(self._package.decode(list(ids), skip_special_tokens=skip_special_tokens))

    def _cut(self, item: Item, whole: Any) -> Encoded:
        n_total = len(whole.ids)
        if self.truncation is None or n_total <= self.truncation:
            return Encoded(list(whole.ids), n_total, _first_len(whole))
        first, second = (item, None) if isinstance(item, str) else item
        found = self._package.encode(first, second, add_special_tokens=self.add_special_tokens)
        return Encoded(list(found.ids), n_total, _first_len(found))

    def _file_truncation(self) -> int | None:
        if self._native:
            truncation = self._native.file_truncation
            return truncation[0] if truncation else None
        stated = _load(self.path).truncation
        return int(stated["max_length"]) if stated else None

    @cached_property
    def _detokenizer(self) -> Detokenizer | None:
        try:
            return Detokenizer(self.path)
        except ValueError:
            return None

    @cached_property
    def _package(self) -> Any:
        """The `tokenizers` package's own object, cutting at `truncation`, and never padding."""
        tokenizer = _load(self.path)
        tokenizer.no_padding()
        if self.truncation != (tokenizer.truncation or {}).get("max_length"):
            tokenizer.enable_truncation(self.truncation)
        return tokenizer

    @cached_property
    def _whole(self) -> Any:
        tokenizer = _load(self.path)
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer


def _load(path: str) -> Any:
    import tokenizers  # late: a native tokenizer that only encodes never needs it

    try:
        return tokenizers.Tokenizer.from_file(path)
    except Exception as reason:  # the package raises nothing narrower
        raise ValueError(f"{path}: {reason}") from reason


def _first_len(found: Any) -> int:
    return int(found.type_ids.index(1)) if 1 in found.type_ids else len(found.ids)
