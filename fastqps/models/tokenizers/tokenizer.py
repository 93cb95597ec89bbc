"""Text to token ids, from a model's own tokenizer.json: natively where the family is native, else by `tokenizers`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike, fspath
from typing import Any, Literal, NamedTuple, get_args

from fastqps._core import Detokenizer, NativeTokenizer
from fastqps.files.regular import open_regular
from fastqps.models.tokenizers.beginnings import beginning_decides, cut_at_space
from fastqps.models.tokenizers.fixed_tokens import Fixed, FixedPackage
from fastqps.models.tokenizers.spans import SpanFinder, TokenSpan, begun
from fastqps.models.tokenizers.vocabulary import content_of, failures, load_package

Item = str | tuple[str, str]
SpecialTokens = Literal["all", "none", "trailing"]
"""Which of the post-processor's special tokens are put around a text or pair; trailing: all but those in front."""
Cut = Literal["counted", "longest", "first"]
"""How an item of too many ids is cut. Of a pair the longer text first, or the first text alone, down to one token. But
for ``counted``, ``Encoded.n_total`` is then only some number above the limit."""
_LONG_CHARACTERS = 1 << 16  # of a text: above, its beginning is tried first
_MARK = "\ufdd0"  # a noncharacter, which no text has


@dataclass(frozen=True, slots=True)
class Encoded:
    """One text or pair as ids, special tokens included."""

    ids: list[int]
    n_total: int
    """Ids that the whole text has; more than len(ids) when it was cut."""
    first_len: int
    """Leading ids with type id 0; the others, a pair's second text, have `Tokenizer.second_type_id`."""
    spans: list[TokenSpan | None] | None = None
    """A text's spans, one for each id, if the tokenizer was made with `unknown_id`; None: a special token around it."""

    @property
    def truncated(self) -> bool:
        return len(self.ids) < self.n_total


class Piece(NamedTuple):
    """A token and the part of its text, in bytes of UTF-8. A special token that was added has no part of the text."""

    id: int
    text: str
    special: bool
    start: int | None
    stop: int | None


class Tokenizer:
    """A tokenizer, native or not, with the same ids. `native` tells which it is, `why_not_native` why it is not."""

    def __init__(
        self, source: str, max_tokens: int | None, special_tokens: SpecialTokens, unknown_id: int | None = None
    ) -> None:
        self.source = source  # the path of a tokenizer.json, or its content
        self.special_tokens = special_tokens
        self.why_not_native = ""
        self._native: NativeTokenizer | None = None
        self._unknown_id = unknown_id
        try:
            self._native = NativeTokenizer(content_of(source), special_tokens)
        except ValueError as reason:
            self.why_not_native = str(reason)
        if self._native and unknown_id is not None and not self._native.finds_spans(max(unknown_id, 0)):
            self._native, self.why_not_native = None, "the native one does not say where in a text its tokens are"
        self.truncation = max_tokens if max_tokens is not None else self._file_truncation()

    @classmethod
    def from_file(
        cls, path: str | PathLike[str], *, max_tokens: int | None = None, special_tokens: SpecialTokens = "all"
    ) -> Tokenizer:
        """Read a tokenizer.json alone. Its padding is ignored. `max_tokens` replaces its truncation but for the side.

        A text is cut to no ids at all where its special tokens alone are more than that.

        `special_tokens` says which ones are put around a text: all, none, or the trailing ones alone, as around a
        prompt whose shared prefix has those that begin a text. Those that are spelled in a text are always found.

        Raises OSError when the file cannot be read and ValueError when it is no tokenizer, or such kind is unknown.
        """
        with open_regular(path):
            return cls.from_source(fspath(path), max_tokens=max_tokens, special_tokens=special_tokens)

    @classmethod
    def from_source(
        cls,
        source: str,
        *,
        max_tokens: int | None = None,
        special_tokens: SpecialTokens = "all",
        unknown_id: int | None = None,
    ) -> Tokenizer:
        """Makes a tokenizer like `from_file`, from a path or from the JSON of a tokenizer.json, which begins with
        `{`.

        `unknown_id`: the id of the token for unknown words, or -1, if `encode_items` has to find spans; else None.
        """
        if special_tokens not in get_args(SpecialTokens):
            raise ValueError(f"special_tokens: {special_tokens!r} is none of {', '.join(get_args(SpecialTokens))}")
        return cls(source, max_tokens, special_tokens, unknown_id)

    @property
    def native(self) -> bool:
        return self._native is not None

    @property
    def second_type_id(self) -> int:
        """Type id of a pair's ids after `first_len`."""
        return self._native.second_type_id if self._native else 1

    def n_special(self, *, pair: bool) -> int:
        """Special tokens that are put around a text, or around the two texts of a pair."""
        if self._native:
            return self._native.n_special(pair)
        return self._untruncated.n_special(pair)

    def around(self) -> tuple[int, int]:
        """Special tokens that are put in front of a text, and behind it."""
        if self._native:
            leading = self._native.n_leading
        else:
            leading = _leading(self.source)[0] if self.special_tokens == "all" else 0
        return leading, self.n_special(pair=False) - leading

    def encode(self, text: str) -> list[int]:
        if self._native:
            return self._native.encode(text, self.truncation)
        return self._package.encode(text).ids

    def encode_pair(self, first: str, second: str) -> tuple[list[int], int]:
        """(ids, n): the first n ids have type id 0, the others `second_type_id`."""
        if self._native:
            return self._native.encode_pair(first, second, self.truncation)
        encoded = self._package.encode((first, second))
        return encoded.ids, encoded.first_len

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        if self._native:
            return self._native.encode_batch(list(texts), self.truncation)
        return [encoded.ids for encoded in self._package.encode_batch(texts)]

    def encode_items(self, items: Sequence[Item], max_tokens: int | None = None, cut: Cut = "counted") -> list[Encoded]:
        """Texts and pairs mixed, each with what a caller needs to refuse a long text instead of cutting it.

        Cut at ``max_tokens``; None: at ``truncation``. A pair of which ``cut`` leaves no token of the first text has no
        ids.
        """
        limit = self.truncation if max_tokens is None else max_tokens
        if self._native and self._unknown_id is not None:
            return [self._spanned(item, limit) for item in items]
        if self._native:
            return [Encoded(*encoded) for encoded in self._native.encode_items(items, limit, cut)]
        if cut == "counted" or limit is None:
            return self._untruncated.encode_batch(items, limit)
        return [self._beginning(item, limit, cut) or self._untruncated.encode(item, limit, cut) for item in items]

    def encode_fixed(
        self, text: bytes, tokens: Sequence[Fixed], max_tokens: int | None = None, cut: Cut = "counted"
    ) -> Encoded:
        """A text with special tokens at known places, and none around it. None that is spelled in it is looked for."""
        if self._native:
            ids, n_total = self._native.encode_fixed(text, list(tokens), max_tokens, cut)
            return Encoded(ids, n_total, len(ids))
        ids = self._fixed.encode(text, tokens)
        kept = ids[len(ids) - min(max_tokens or len(ids), len(ids)) :] if self._cuts_left else ids[:max_tokens]
        return Encoded(kept, len(ids), len(kept))

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        if self.detokenizer and skip_special_tokens:
            return self.detokenizer.decode(ids)
        return self._package.decode(ids, skip_special_tokens)

    def token(self, token_id: int) -> str:
        """The token as its vocabulary spells it; "" where there is none."""
        return self._untruncated.token(token_id)

    def pieces(self, text: str, *, special_tokens: bool) -> list[Piece]:
        """The tokens of a whole text, through the `tokenizers` package."""
        return self._untruncated.pieces(text, special_tokens)

    def _spanned(self, item: Item, limit: int | None) -> Encoded:
        assert self._native
        if not isinstance(item, str):
            return Encoded(*self._native.encode_items([item], limit)[0])
        ids, n_total, spans = self._native.encode_spans(item, limit)
        return Encoded(ids, n_total, len(ids), [span and TokenSpan(*span) for span in spans])

    def _beginning(self, item: Item, limit: int, cut: Cut) -> Encoded | None:
        """A long text, cut, if a beginning that decides its ids has too many of them; else None."""
        if not isinstance(item, str) or len(item) <= _LONG_CHARACTERS or not self._beginning_decides:
            return None
        size = _LONG_CHARACTERS
        while size < len(item):
            encoded = self._untruncated.encode(cut_at_space(item, size), limit, cut)
            if encoded.truncated:
                return encoded
            size *= 4
        return None

    @cached_property
    def _beginning_decides(self) -> bool:
        return beginning_decides(json.loads(content_of(self.source)))

    @cached_property
    def _fixed(self) -> FixedPackage:
        return FixedPackage(self.source)

    @property
    def _cuts_left(self) -> bool:
        return (load_package(self.source).truncation or {}).get("direction") == "left"

    def _file_truncation(self) -> int | None:
        if self._native:
            truncation = self._native.file_truncation
            return truncation[0] if truncation else None
        stated = load_package(self.source).truncation
        return int(stated["max_length"]) if stated else None

    @cached_property
    def detokenizer(self) -> Detokenizer | None:
        """Makes text of ids natively; None where this kind of tokenizer has no such."""
        try:
            return Detokenizer(content_of(self.source))
        except ValueError:
            return None

    @cached_property
    def _package(self) -> _Package:
        """Cuts at `truncation`."""
        return _Package(self.source, self.special_tokens, self.truncation, self._unknown_id)

    @cached_property
    def _untruncated(self) -> _Package:
        return _Package(self.source, self.special_tokens, None, self._unknown_id)


class _Package:
    """The `tokenizers` package's own object, cutting at `max_tokens` and never padding.

    The package knows no trailing special tokens alone: it is given room for those in front, which are then left out.
    """

    def __init__(
        self,
        source: str,
        special_tokens: SpecialTokens,
        max_tokens: int | None,
        unknown_id: int | None,
    ) -> None:
        self._add = special_tokens != "none"
        self._leading = _leading(source) if special_tokens == "trailing" else (0, 0)
        single, pair = self._leading
        self._single = self._pair = _cutting(source, max_tokens, single)
        if max_tokens is not None and pair != single:
            self._pair = _cutting(source, max_tokens, pair)
        # The package does not cut at a length that is below the number of the special tokens.
        self._no_room = [max_tokens is not None and max_tokens < self.n_special(pair) for pair in (False, True)]
        self._cuts_left = (load_package(source).truncation or {}).get("direction") == "left"
        self._spans = None if unknown_id is None else SpanFinder(self._single, unknown_id)

    def n_special(self, pair: bool) -> int:
        if not self._add:
            return 0
        return int(self._single.num_special_tokens_to_add(pair)) - self._leading[pair]

    def encode(self, item: Item, limit: int | None = None, cut: Cut = "longest") -> Encoded:
        """The item, cut at ``limit``, too; `n_total` is what the package leaves of it."""
        if self._no_room[not isinstance(item, str)]:
            return Encoded([], 0, 0)
        with failures():
            if isinstance(item, str):
                return self._encoded(item, self._single.encode(item, add_special_tokens=self._add), limit, cut)
            return self._encoded(item, self._pair.encode(*item, add_special_tokens=self._add), limit, cut)

    def encode_batch(self, items: Sequence[Item], limit: int | None = None) -> list[Encoded]:
        if self._pair is not self._single or any(self._no_room):
            return [self.encode(item, limit) for item in items]
        with failures():
            encodings = self._single.encode_batch(list(items), add_special_tokens=self._add)
        return [self._encoded(item, each, limit) for item, each in zip(items, encodings, strict=True)]

    def token(self, token_id: int) -> str:
        return self._single.id_to_token(token_id) or ""

    def pieces(self, text: str, special_tokens: bool) -> list[Piece]:
        with failures():  # a batch, because encode() would hold Python's lock
            (encoding,) = self._single.encode_batch([text], add_special_tokens=special_tokens)
        bytes_before = [0]
        for character in text:
            bytes_before.append(bytes_before[-1] + len(character.encode()))
        return [
            Piece(token_id, token, True, None, None)
            if special
            else Piece(token_id, text[start:stop], False, bytes_before[start], bytes_before[stop])
            for token_id, token, special, (start, stop) in zip(
                encoding.ids, encoding.tokens, encoding.special_tokens_mask, encoding.offsets, strict=True
            )
        ]

    def decode(self, ids: Sequence[int], skip_special_tokens: bool) -> str:
        with failures():
            return str(self._single.decode(list(ids), skip_special_tokens=skip_special_tokens))

    def _encoded(self, item: Item, encoding: Any, limit: int | None, cut: Cut = "longest") -> Encoded:
        leading = self._leading[not isinstance(item, str)]
        ids, type_ids = encoding.ids[leading:], encoding.type_ids[leading:]
        spans = self._spans.find(item, encoding)[leading:] if self._spans and isinstance(item, str) else None
        n_total = len(ids)
        if limit is not None and n_total > limit:
            kept = self._kept(encoding.sequence_ids[leading:], limit, cut)
            ids, type_ids = [ids[i] for i in kept], [type_ids[i] for i in kept]
            spans = begun([spans[i] for i in kept]) if spans is not None else None
        first_len = type_ids.index(1) if 1 in type_ids else len(ids)
        return Encoded(ids, n_total, first_len, spans)

    def _kept(self, sequences: Sequence[int | None], limit: int, cut: Cut) -> list[int]:
        """The places of the ids that are left. ``sequences``: 0 and 1 for the texts' ids, None for special tokens.

        The package itself is not asked to cut: of a pair it makes all combinations of the parts that it cuts off.
        """
        places = [[i for i, each in enumerate(sequences) if each == which] for which in (0, 1)]
        room = limit - (len(sequences) - sum(map(len, places)))
        if room < 0 or (cut == "first" and len(places[1]) >= room):
            return []
        lengths = _cut_lengths(len(places[0]), len(places[1]), room, cut)
        cut_off = {
            i
            for own, length in zip(places, lengths, strict=True)
            for i in (own[: len(own) - length] if self._cuts_left else own[length:])
        }
        return [i for i in range(len(sequences)) if i not in cut_off]


def _cut_lengths(first: int, second: int, room: int, cut: Cut) -> tuple[int, int]:
    """The ids that are left of each text of an item that is too long, as `TemplateTokenizer::cut_pair` has it."""
    if cut == "first":
        return room - second, second
    shorter, longer = sorted((first, second))
    longer = shorter if shorter > room else max(shorter, room - shorter)
    if shorter + longer > room:
        shorter, longer = room // 2, room - room // 2
    return (longer, shorter) if first > second else (shorter, longer)


@failures()
def _cutting(source: str, max_tokens: int | None, leading: int) -> Any:
    """The package's tokenizer, which cuts at `max_tokens` plus `leading`; at the file's own length it cuts as the file
    says."""
    tokenizer = load_package(source)
    tokenizer.no_padding()
    stated = tokenizer.truncation or {}
    if max_tokens is None:
        tokenizer.no_truncation()
    elif stated.get("max_length") == max_tokens:
        tokenizer.enable_truncation(**{**stated, "max_length": max_tokens + leading})
    else:
        tokenizer.enable_truncation(max_tokens + leading, direction=stated.get("direction", "right"))
    return tokenizer


@failures()
def _leading(source: str) -> tuple[int, int]:
    """The number of special tokens in front of a text, and of a pair, found by a probe token."""
    from tokenizers import AddedToken

    tokenizer = _cutting(source, None, 0)
    tokenizer.add_tokens([AddedToken(_MARK, normalized=False)])
    mark = tokenizer.token_to_id(_MARK)

    def before(*texts: str) -> int:
        with_special, without = (tokenizer.encode(*texts, add_special_tokens=add).ids for add in (True, False))
        return int(with_special.index(mark) - without.index(mark))

    return before(_MARK), before(_MARK, _MARK)
