"""Whether the compiled engine was built from the sources beside it.

After a pull without a build a run ends with one line, instead of measuring with an engine that is not the one at hand.
"""

from __future__ import annotations

import zlib
from pathlib import Path

HERE = Path(__file__).parent
PARTS = ("", "server", "bind")  # the folders of csrc that setup.py builds it from
SUFFIXES = (".h", ".cpp")


def checksum(root: Path = HERE) -> str:
    """Of the engine's sources in ``root``/csrc: eight hex digits."""
    total = 0
    for part in PARTS:
        for path in sorted((root / "csrc" / part).iterdir()):
            if path.suffix in SUFFIXES:
                total = zlib.crc32(path.name.encode() + path.read_bytes(), total)
    return f"{total:08x}"


def check(sources: str, root: Path = HERE) -> None:
    """Raises ImportError if an engine that was built from ``sources`` is not that of ``root``.

    An installed wheel has no sources to compare with.
    """
    if (root / "csrc").is_dir() and sources != checksum(root):
        raise ImportError(f"loadgen._native was built from other sources than those in {root}")
