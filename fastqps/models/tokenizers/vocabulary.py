"""Loads tokenizers of the `tokenizers` package, and answers questions to their vocabularies.

The source of a tokenizer is the path of a tokenizer.json, or its JSON, which begins with `{`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fastqps.files.regular import read_regular
from fastqps.models.files.reading import TOKENIZER_BYTES_MAX


def content_of(source: str) -> str:
    """The JSON. ``ValueError`` names a file that cannot be read: its place may have been taken since it was checked."""
    if source.startswith("{"):
        return source
    try:
        return read_regular(source, TOKENIZER_BYTES_MAX).decode()
    except OSError as error:
        raise ValueError(f"{source}: {error.strerror}") from None


def ids_of_tokens(source: str, tokens: Sequence[str]) -> list[int | None]:
    """The id of each token; None: the tokenizer has no such token. ``source`` as ``Tokenizer.from_source`` takes it."""
    tokenizer = load_package(source)
    return [tokenizer.token_to_id(token) for token in tokens]


def split_markers(source: str, markers: Sequence[str]) -> tuple[str, ...]:
    """The tokens that begin ``markers`` and are in the vocabulary, but are split where they stand in a text.

    Such a token is the whole marker, else its first word.
    """
    tokenizer = load_package(source)
    split = []
    for marker in markers:
        known = [each for each in (marker, marker.split(None, 1)[0]) if tokenizer.token_to_id(each) is not None]
        if known and tokenizer.encode(known[0], add_special_tokens=False).tokens != known[:1]:
            split.append(known[0])
    return tuple(split)


@contextmanager
def failures() -> Iterator[None]:
    """Turns a failure of the `tokenizers` package into ``ValueError``.

    Its errors are plain ``Exception``, and its panics are not even that: one text that the package cannot handle would
    end whoever tokenizes it.
    """
    try:
        yield
    except BaseException as failure:
        if type(failure) is not Exception and type(failure).__name__ != "PanicException":  # which no module exports
            raise
        raise ValueError(f"the tokenizers package failed: {failure}") from None


def load_package(source: str) -> Any:
    """The package's tokenizer. ``ValueError`` where it makes none of the source."""
    import tokenizers  # late: a native tokenizer that only encodes never needs it

    try:
        with failures():
            return tokenizers.Tokenizer.from_str(content_of(source))
    except Exception as reason:  # the package raises nothing narrower
        raise ValueError(f"{'tokenizer.json' if source.startswith('{') else source}: {reason}") from reason
