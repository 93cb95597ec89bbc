"""Steps that last until a test lets them end: for what must happen while a dispatcher is busy.

A step, or a generation behind its first token, that meets the id of a gate waits while the gate's file is there. The
folder of the files goes with its server, and no file outlives the ``with`` of its gate: a test that fails holds nobody.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

HOLD = 29_000  # ids of gates; no text and no ledger has them
HOLD_MAX = 900
FOLDER = "TEST_GATES"  # the variable by which dispatchers find it
LOOK_S = 0.002
HELD_S_MAX = 300.0  # a test that is gone has not opened its gates


@dataclass
class Gate:
    """``id``: of the requests that it holds."""

    id: int
    _file: Path

    def open(self) -> None:
        self._file.unlink(missing_ok=True)

    def reached(self) -> bool:
        """Whether a dispatcher has come to it."""
        return _mark(self._file).exists()


class Gates:
    """All gates of a server."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="gates-", ignore_cleanup_errors=True)
        self._next = HOLD
        self.environment = {FOLDER: self._folder.name}

    @contextmanager
    def closed(self) -> Iterator[Gate]:
        """A new one, that is open at the end."""
        assert self._next < HOLD + HOLD_MAX, "more gates than ids"
        gate = Gate(self._next, Path(self._folder.name) / str(self._next))
        self._next += 1
        gate._file.touch()
        try:
            yield gate
        finally:
            gate.open()

    def remove(self) -> None:
        self._folder.cleanup()


def pass_through(ids: Iterable[int]) -> None:
    """In a dispatcher: waits for every closed gate whose id is among these."""
    held = {number for number in ids if HOLD <= number < HOLD + HOLD_MAX}
    if not held:
        return
    folder, end_s = Path(os.environ[FOLDER]), time.monotonic() + HELD_S_MAX
    files = [folder / str(number) for number in held]
    for file in files:
        if file.exists():
            with suppress(FileNotFoundError):  # the server is being removed
                _mark(file).touch()
    while any(file.exists() for file in files) and time.monotonic() < end_s:
        time.sleep(LOOK_S)


def _mark(file: Path) -> Path:
    return file.with_suffix(".reached")
