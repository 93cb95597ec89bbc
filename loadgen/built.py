"""Whether the compiled engine was built from the sources beside it.

After a pull without a build a run ends with one line, instead of measuring with an engine that is not the one at hand.
"""

from __future__ import annotations

import zlib
from pathlib import Path

TREE = Path(__file__).parents[1]
# The folders that it is built from: its own, and those of csrc that it shares with the server.
PARTS = (
    *("loadgen/csrc", "loadgen/csrc/connection", "loadgen/csrc/record", "loadgen/csrc/server", "loadgen/csrc/bind"),
    *("csrc/contract", "csrc/core", "csrc/h2client"),
    *("csrc/transport/net", "csrc/transport/tls", "csrc/transport/framing"),
)
SUFFIXES = (".h", ".cpp")


def checksum(tree: Path = TREE) -> str:
    """The checksum of the engine's sources in the source tree ``tree``: eight hex digits."""
    total = 0
    for part in PARTS:
        for path in sorted((tree / part).iterdir()):
            if path.suffix in SUFFIXES:
                total = zlib.crc32(path.name.encode() + path.read_bytes(), total)
    return f"{total:08x}"


def check(sources: str, tree: Path = TREE) -> None:
    """Raises ImportError if an engine that was built from ``sources`` is not that of ``tree``.

    Where a wheel is installed there is no source tree to compare with.
    """
    if (tree / "setup.py").is_file() and sources != checksum(tree):
        raise ImportError(f"loadgen._native was built from other sources than those in {tree}")
