"""Replaces files as a whole: after a full disk or Ctrl-C the old content is still there."""

from __future__ import annotations

import contextlib
from pathlib import Path


def replace_file(path: Path, text: str) -> Path:
    """The path. Raises OSError with it where it cannot be written. Surrogates, which cannot be encoded, become question
    marks."""
    data = text.encode("utf-8", "replace")
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)  # a pipe or a device: nothing can take its place
            return path
        behind = path.resolve()  # a link stays one
        draft = behind.with_name(f"{behind.name}.part")
        try:
            draft.write_bytes(data)
            draft.replace(behind)
        finally:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    return path
