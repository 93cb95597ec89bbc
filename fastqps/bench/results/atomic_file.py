"""Replaces files as a whole: after a full disk or Ctrl-C the old content is still there."""

from __future__ import annotations

import contextlib
from pathlib import Path


def replace_file(path: Path, text: str) -> Path:
    """The path. OSError where it cannot be written. Surrogates, which cannot be encoded, become question marks."""
    draft = path.with_name(f"{path.name}.part")
    try:
        draft.write_bytes(text.encode("utf-8", "replace"))
        return draft.replace(path)
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
