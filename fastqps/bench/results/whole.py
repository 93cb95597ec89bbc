"""Files that are there as a whole, or as they were before: a full disk, or Ctrl-C, leaves no half of one."""

from __future__ import annotations

import contextlib
from pathlib import Path


def write_whole(path: Path, text: str) -> Path:
    """The path. OSError where it cannot be written. Surrogates, which cannot be encoded, become question marks."""
    draft = path.with_name(f"{path.name}.part")
    try:
        draft.write_bytes(text.encode("utf-8", "replace"))
        return draft.replace(path)
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
