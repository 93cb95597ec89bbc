"""Whether a file has the content that the hub states for it."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from fastqps.models.card import ModelError
from fastqps.models.files.regular import open_regular

_SHA256, _SHA1 = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-f]{40}")
_CHUNK_BYTES = 1 << 20


def stated_by(path: Path) -> str:
    """The hash in the name of the cache's file that ``path`` links to; "" where the cache has no links."""
    name = path.readlink().name if path.is_symlink() else ""
    return name if _SHA256.fullmatch(name) or _SHA1.fullmatch(name) else ""


def check_content(path: Path, stated: str) -> None:
    """``ModelError`` where the file has another hash. ``stated``: SHA-256 of its content (of large files), or SHA-1 of
    git's blob."""
    total = hashlib.sha256()
    with open_regular(path) as stream:
        if _SHA1.fullmatch(stated):
            total = hashlib.sha1(b"blob %d\0" % os.fstat(stream.fileno()).st_size, usedforsecurity=False)
        while chunk := stream.read(_CHUNK_BYTES):
            total.update(chunk)
    if total.hexdigest() != stated:
        raise ModelError(f"{path}: its content has the hash {total.hexdigest()}, and the hub states {stated}")
