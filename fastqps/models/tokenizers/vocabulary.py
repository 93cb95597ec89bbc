"""Questions to a tokenizer's vocabulary, through the `tokenizers` package.

The source of a tokenizer is the path of a tokenizer.json, or its JSON, which begins with `{`.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    tokenizer = _load(source)
    return [tokenizer.token_to_id(token) for token in tokens]


def split_markers(source: str, markers: Sequence[str]) -> tuple[str, ...]:
    """The tokens that begin ``markers`` and are in the vocabulary, but are split where they stand in a text.

    Such a token is the whole marker, else its first word.
    """
    tokenizer = _load(source)
    split = []
    for marker in markers:
        known = [each for each in (marker, marker.split(None, 1)[0]) if tokenizer.token_to_id(each) is not None]
        if known and tokenizer.encode(known[0], add_special_tokens=False).tokens != known[:1]:
            split.append(known[0])
    return tuple(split)


def _load(source: str) -> Any:
    import tokenizers  # late: few checkpoints need it here

    return tokenizers.Tokenizer.from_str(content_of(source))
