"""Shows how far a download is: a bar on a terminal, else a line every few seconds."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from fastqps.terminal import shown

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
        """While this lasts, a thread writes to ``stream``, stderr if there is none."""
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
            print(f"\r\x1b[K{self._bar()}" if bar else self._line(), end="" if bar else "\n", file=to, flush=True)

    def _line(self) -> str:
        return f"fastqps: {self._title}: {_size(self._bytes())} of {_size(self._total)} downloaded"

    def _bar(self) -> str:
        full = _BAR_CHARS * self._bytes() // max(1, self._total)
        return f"{self._title} [{'#' * full}{'.' * (_BAR_CHARS - full)}] {_size(self._bytes())} of {_size(self._total)}"

    def _bytes(self) -> int:
        coming = 0
        for path in self._blobs.glob("*.incomplete"):
            with contextlib.suppress(OSError):  # complete by now
                found = path.stat()
                coming += found.st_size if found.st_mtime >= self._began_s else 0
        return min(self._total, self.done + coming)


def _size(n: int) -> str:
    return f"{n / (1 << 20):.1f} MiB"
