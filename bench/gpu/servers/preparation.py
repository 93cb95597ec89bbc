"""A host as slow as we like: servers that start in here spin before each launch, for a time that can change."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

VARIABLE = "FASTQPS_TEST_PREPARE"  # a file that dispatchers map: µs, 8 bytes, little-endian
_BYTES = 8


@contextmanager
def slow_host() -> Iterator[Callable[[float], None]]:
    """Gives what sets the time in µs, from the next launch on, also of servers that run already."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "prepare"
        path.write_bytes(bytes(_BYTES))

        def set_us(us: float) -> None:
            with path.open("r+b") as file:
                file.write(round(us).to_bytes(_BYTES, "little"))

        os.environ[VARIABLE] = str(path)
        try:
            yield set_us
        finally:
            del os.environ[VARIABLE]


def prepare_us() -> int:
    """As a server that starts here would see it; 0 outside of ``slow_host``."""
    path = os.environ.get(VARIABLE)
    return int.from_bytes(Path(path).read_bytes(), "little") if path else 0
