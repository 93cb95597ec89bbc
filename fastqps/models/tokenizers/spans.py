"""Where in its text each token stands, and whether it continues a word: what entities are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class TokenSpan(NamedTuple):
    """The characters ``start`` to ``end`` of the text. ``continues_word``: the token is not the first of its word."""

    start: int
    end: int
    continues_word: bool


class SpanFinder:
    """Finds the spans in encodings of one tokenizer of the `tokenizers` package.

    Words are those of transformers' pipeline for token classification. Where the vocabulary marks the tokens that
    continue a word (``##``), such a token has another length than its text, as has an added token that takes the space
    beside it. Elsewhere a word ends at a space.
    """

    def __init__(self, tokenizer: Any, unknown_id: int) -> None:
        self._tokenizer = tokenizer
        self._marked = bool(getattr(tokenizer.model, "continuing_subword_prefix", None))
        self._unknown_id = unknown_id  # it never continues a word

    def find(self, text: str, encoding: Any) -> list[TokenSpan | None]:
        """One for each token of ``encoding``; None for a special token that was put around the text."""
        parts = zip(encoding.ids, encoding.special_tokens_mask, encoding.offsets, strict=True)
        spans = [None if special else self._span(text, number, *at) for number, special, at in parts]
        return begun(spans)

    def _span(self, text: str, number: int, start: int, end: int) -> TokenSpan:
        if number == self._unknown_id:
            return TokenSpan(start, end, False)
        if self._marked:
            # The token as the vocabulary has it: the encoding's own text of an added token has the space beside it.
            return TokenSpan(start, end, len(self._tokenizer.id_to_token(number)) != end - start)
        return TokenSpan(start, end, start > 0 and " " not in text[start - 1 : start + 1])


def begun(spans: Sequence[TokenSpan | None]) -> list[TokenSpan | None]:
    """The spans, where the first token of a text continues no word: nothing is in front of it."""
    return [
        span and span._replace(continues_word=span.continues_word and i > 0 and spans[i - 1] is not None)
        for i, span in enumerate(spans)
    ]


def words(spans: Sequence[TokenSpan | None]) -> list[range]:
    """The tokens of each word; a special token is a word of its own."""
    starts = [i for i, span in enumerate(spans) if i == 0 or span is None or not span.continues_word]
    return [range(*each) for each in zip(starts, [*starts[1:], len(spans)], strict=True)]
