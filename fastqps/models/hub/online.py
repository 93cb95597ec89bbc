"""A repository at the hub, at one commit. Files go into the library's cache, and are checked there."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

from fastqps.errors import ModelError
from fastqps.models.hub.cached import check_content, repository_folder, stated_by, write_ref
from fastqps.models.hub.patience import patiently
from fastqps.models.hub.reference import HubReference
from fastqps.terminal import say, shown
from fastqps.version import __version__

LINE_S, BAR_S = 5.0, 0.2
_BAR_CHARS = 24


class Progress:
    """Bytes of a download. ``done`` is what is complete; of the file that is coming, the disk says how much is there.

    ``blobs``: the cache's folder, in which the library writes files that end in .incomplete.
    """

    def __init__(self, title: str, blobs: Path, total: int) -> None:
        self.done = 0
        self._title, self._blobs, self._total = shown(title), blobs, total
        self._began_s = time.time()

    @contextlib.contextmanager
    def shown(self, stream: TextIO | None = None) -> Iterator[Progress]:
        """While this lasts, a thread draws a bar on ``stream``, else on stderr. Without a terminal it says lines."""
        to = stream or sys.stderr
        ended, bar = threading.Event(), to.isatty()
        thread = threading.Thread(target=self._show, args=(to, bar, ended), name="download", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            ended.set()
            thread.join()
            if bar:
                print("\r\x1b[K", end="", file=to, flush=True)

    def _show(self, to: TextIO, bar: bool, ended: threading.Event) -> None:
        while not ended.wait(BAR_S if bar else LINE_S):
            if bar:
                print(f"\r\x1b[K{self._bar()}", end="", file=to, flush=True)
            else:
                say(self._line())

    def _line(self) -> str:
        return f"fastqps: {self._title}: {_size(self._bytes())} of {_size(self._total)} downloaded"

    def _bar(self) -> str:
        full = _BAR_CHARS * self._bytes() // max(1, self._total)
        return f"{self._title} [{'#' * full}{'.' * (_BAR_CHARS - full)}] {_size(self._bytes())} of {_size(self._total)}"

    def _bytes(self) -> int:
        coming = 0
        for path in self._blobs.glob("*.incomplete"):
            with contextlib.suppress(OSError):  # complete by now
                status = path.stat()
                coming += status.st_size if status.st_mtime >= self._began_s else 0
        return min(self._total, self.done + coming)


def _size(n: int) -> str:
    return f"{n / (1 << 20):.1f} MiB"


_ASK_S_MAX = 30.0  # for the listing


class Online:
    """The commit that a revision is now, with what the hub says of its files. ``ModelError`` where there is none."""

    def __init__(self, reference: HubReference, cache: Path) -> None:
        from huggingface_hub import HfApi

        self._reference = reference
        self._api = HfApi(library_name="fastqps", library_version=__version__)
        info = patiently(
            reference,
            "asking the hub",
            lambda: self._api.model_info(
                reference.repository, revision=reference.revision, files_metadata=True, timeout=_ASK_S_MAX
            ),
        )
        self.commit = str(info.sha)
        self.title = f"{reference} (commit {self.commit[:12]})"
        self._storage = repository_folder(reference, cache)
        files = info.siblings or []
        self._sizes = {file.rfilename: file.size or 0 for file in files}
        self._stated = {file.rfilename: file.lfs.sha256 if file.lfs else file.blob_id or "" for file in files}
        self.names = frozenset(self._sizes)

    def take(self, name: str) -> Path:
        """Downloads the file unless the cache has it. One of another content than the hub states is deleted, and
        downloaded once more."""
        for last in (False, True):
            path = self._download(name)
            try:
                self._check(path, name)
                break
            except ModelError:
                _discard(path)
                if last:
                    raise
        return path

    def take_all(self, names: Iterable[str]) -> Path:
        """Downloads the files in this order and shows how far that is. Returns the folder that they lie in.

        Only then does the cache know the revision, so that what was interrupted is not found offline.
        """
        wanted = list(names)
        total = sum(self._sizes[name] for name in wanted)
        with Progress(self.title, self._storage / "blobs", total).shown() as progress:
            for name in wanted:
                self.take(name)
                progress.done += self._sizes[name]
        if not self._reference.pinned:
            write_ref(self._reference, self._storage, self.commit)
        return self._storage / "snapshots" / self.commit

    def _download(self, name: str) -> Path:
        from huggingface_hub import hf_hub_download

        with _without_bars():
            return Path(
                patiently(
                    self._reference,
                    f"downloading {name}",
                    lambda: hf_hub_download(
                        self._reference.repository,
                        name,
                        revision=self.commit,
                        library_name="fastqps",
                        library_version=__version__,
                    ),
                )
            )

    def _check(self, path: Path, name: str) -> None:
        stated = self._stated[name] or stated_by(path)
        if not stated:
            raise ModelError(f"{self.title}: the hub states no hash of {name}, so that it cannot be checked")
        check_content(path, stated)


def _discard(path: Path) -> None:
    """Deletes a file of the cache with the link to it."""
    blob = path.parent / path.readlink() if path.is_symlink() else path
    for each in {path, blob}:
        each.unlink(missing_ok=True)


@contextlib.contextmanager
def _without_bars() -> Iterator[None]:
    """Switches off the library's bars, one for each file, and its log of what is tried again."""
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    shown, logger = not are_progress_bars_disabled(), logging.getLogger("huggingface_hub")
    level = logger.level
    disable_progress_bars()
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
        if shown:
            enable_progress_bars()
