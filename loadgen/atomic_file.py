"""Replaces files as a whole: after a full disk or Ctrl-C the old content is still there."""

from __future__ import annotations

import contextlib
from pathlib import Path

from loadgen.errors import LoadgenError


def replace_file(path: Path, text: str) -> None:
    """Raises ``LoadgenError`` where it cannot be written."""
    try:
        if path.exists() and not path.is_file():
            path.write_text(text)  # a pipe or a device: nothing can take its place
            return
        behind = path.resolve()  # a link stays one
        draft = behind.with_name(f"{behind.name}.part")
        try:
            draft.write_text(text)
            draft.replace(behind)
        finally:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
    except OSError as error:
        raise LoadgenError(f"cannot write {path}: {error.strerror}") from None
