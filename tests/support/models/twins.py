"""A native tokenizer beside that of the `tokenizers` package, from the same bytes: both must give the same."""

from __future__ import annotations

import random
from functools import cached_property
from typing import Any

import tokenizers

from fastqps._core import Detokenizer, NativeTokenizer


class Twins:
    """``native`` adds special tokens, ``bare`` none."""

    def __init__(self, content: str) -> None:
        self._content = content
        self.native, self.bare = NativeTokenizer(content), NativeTokenizer(content, "none")
        self.package: Any = tokenizers.Tokenizer.from_str(content)
        self.package.no_padding()
        self.package.no_truncation()
        self.n_ids = self.package.get_vocab_size()

    @cached_property
    def detokenizer(self) -> Detokenizer:
        return Detokenizer(self._content)

    def check(self, text: str, special: bool = True) -> list[int]:
        expected: list[int] = self.package.encode(text, add_special_tokens=special).ids
        assert (self.native if special else self.bare).encode(text) == expected, ascii(text)
        return expected

    def check_pair(self, first: str, second: str, special: bool = True) -> None:
        found = self.package.encode(first, second, add_special_tokens=special)
        native = self.native if special else self.bare
        ids, n_first = native.encode_pair(first, second)
        types = [0] * n_first + [native.second_type_id] * (len(ids) - n_first)
        assert (ids, types) == (found.ids, found.type_ids), (ascii(first), ascii(second))

    def check_all(self, texts: list[str]) -> None:
        """In one batch of the package."""
        for text, found in zip(texts, self.package.encode_batch_fast(texts), strict=True):
            assert self.native.encode(text) == found.ids, ascii(text)

    def check_decode(self, ids: list[int], pick: random.Random) -> None:
        """Whole, and streamed in parts of random sizes."""
        expected = self.package.decode(ids, skip_special_tokens=True)
        assert self.detokenizer.decode(ids) == expected, ids
        stream, text, at = self.detokenizer.stream(), "", 0
        while at < len(ids):
            n = pick.choice([0, 1, 1, 1, 2, 5])
            text += stream.append(ids[at : at + n])
            assert expected.startswith(text), ids
            at += n
        assert text + stream.finish() == expected, ids
