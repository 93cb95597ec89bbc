"""A repository as the library's cache holds it. Nothing is asked of the hub."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Iterable
from pathlib import Path

from fastqps.errors import ModelError
from fastqps.files.regular import read_regular
from fastqps.models.files.reading import open_regular
from fastqps.models.hub.reference import HubReference

_FILES_MAX = 10_000
_REF_BYTES_MAX = 100


class Cached:
    """The commit that the cache has for a revision. ``ModelError`` where it has none."""

    def __init__(self, reference: HubReference, cache: Path) -> None:
        storage = repository_folder(reference, cache)
        self.title = f"{reference} in {cache}"
        self.commit = _commit(reference, storage)
        self._root = storage / "snapshots" / self.commit
        if not self.commit or not self._root.is_dir():
            raise ModelError(
                f"{reference} is not in {cache}, and offline nothing is downloaded: set HF_HOME to the cache that has "
                "it, or where the hub can be reached run: "
                f"hf download {reference.repository} --revision {reference.revision}"
            )
        self.names = frozenset(self._list())

    def take(self, name: str) -> Path:
        """The file, of the content that its name in the cache states."""
        path = self._root / name
        if stated := stated_by(path):
            check_content(path, stated)
        return path

    def take_all(self, names: Iterable[str]) -> Path:
        """Checks the files; the folder that they lie in."""
        for name in names:
            self.take(name)
        return self._root

    def _list(self) -> Iterable[str]:
        for number, path in enumerate(self._root.rglob("*")):
            if number >= _FILES_MAX:
                raise ModelError(f"{self._root}: more than {_FILES_MAX} files")
            if not path.is_dir():
                yield path.relative_to(self._root).as_posix()


def repository_folder(reference: HubReference, cache: Path) -> Path:
    """The cache's folder of a repository: blobs by hash, snapshots by commit, and refs from names to commits."""
    return cache / f"models--{reference.repository.replace('/', '--')}"


def write_ref(reference: HubReference, storage: Path, commit: str) -> None:
    """Notes the commit of a branch or tag as the library does, so that it is found offline. May raise ``OSError``."""
    path = storage / "refs" / reference.revision
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    temporary.write_text(commit, encoding="ascii")
    temporary.replace(path)


def _commit(reference: HubReference, storage: Path) -> str:
    """The commit that the cache knows for the revision; "" where it knows none."""
    if reference.pinned:
        return reference.revision
    try:
        return read_regular(storage / "refs" / reference.revision, _REF_BYTES_MAX).decode("ascii").strip()
    except (OSError, ValueError):
        return ""


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
