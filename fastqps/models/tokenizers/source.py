"""The source of a tokenizer: the path of a tokenizer.json, or its JSON, which begins with `{`."""

from __future__ import annotations

from fastqps.files.regular import read_regular

TOKENIZER_BYTES_MAX = 64 << 20


def content_of(source: str) -> str:
    """The JSON. ``ValueError`` names a file that cannot be read: its place may have been taken since it was checked."""
    if source.startswith("{"):
        return source
    try:
        return read_regular(source, TOKENIZER_BYTES_MAX).decode()
    except OSError as error:
        raise ValueError(f"{source}: {error.strerror}") from None
