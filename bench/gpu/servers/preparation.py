"""A host as slow as we like: servers that start in here spin before each launch, for a time that can change."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Self

VARIABLE = "FASTQPS_TEST_PREPARE"  # a file that dispatchers map: µs, 8 bytes, little-endian
_BYTES = 8


class Preparation:
    """A context manager. ``folder``: for its file."""

    def __init__(self, folder: str) -> None:
        self._path = Path(folder) / "prepare"

    def set(self, us: float) -> None:
        """From the next launch on, also of servers that run already."""
        with self._path.open("r+b") as file:
            file.write(round(us).to_bytes(_BYTES, "little"))

    def __enter__(self) -> Self:
        self._path.write_bytes(bytes(_BYTES))
        os.environ[VARIABLE] = str(self._path)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.environ.pop(VARIABLE, None)


def prepare_us() -> int:
    """As a server that starts here would see it; 0 outside of a ``Preparation``."""
    path = os.environ.get(VARIABLE)
    return int.from_bytes(Path(path).read_bytes(), "little") if path else 0
