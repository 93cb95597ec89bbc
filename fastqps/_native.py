"""Checks that a compiled extension belongs to the Python code beside it.

An extension carries the version that it was built for and a checksum of the sources that it was built from, and calls
``check`` when it is imported. So a pull without a build, or half an upgrade, is one clear error instead of a crash.
"""

from __future__ import annotations

import functools
import glob
import zlib
from pathlib import Path

# The folders of csrc that decide what is in each extension, with all that they hold: those that csrc/build.mk compiles
# into it. Beside them csrc/build.mk itself and the headers in csrc/bind.
PARTS = {
    "_core": "contract core supervisor text step bind/core",
    "_front": "contract core text transport h2client edge service protocols bind/front",
}
SUFFIXES = (".h", ".cpp", ".inc")
ROOT = Path(__file__).parents[1]


class StaleExtension(ImportError):
    """An extension that does not belong to this package; the message says what to do."""


def checksum(name: str, root: Path = ROOT) -> str:
    """The checksum of the sources of extension ``name`` in the source tree ``root``: eight hex digits."""
    csrc = root / "csrc"
    total = _file_sum(csrc / "build.mk")
    for header in sorted((csrc / "bind").glob("*.h")):
        total = _file_sum(header, total)
    for part in PARTS[name].split():
        total = zlib.crc32(_folder_sum(csrc / part).to_bytes(4), total)
    return f"{total:08x}"


@functools.cache  # both extensions are built from some of them
def _folder_sum(folder: Path) -> int:
    total = 0
    for name in sorted(glob.glob("**/*", root_dir=folder, recursive=True)):
        if name.endswith(SUFFIXES):
            total = zlib.crc32(name.encode(), _file_sum(folder / name, total))
    return total


def _file_sum(path: Path, start: int = 0) -> int:
    return zlib.crc32(path.read_bytes(), start)


def check(name: str, version: str, sources: str, root: Path = ROOT) -> None:
    """Raises ``StaleExtension`` if extension ``name``, built for ``version`` from ``sources``, is not this package's.

    Sources are compared where a source tree is present: an installed wheel has none.
    """
    from fastqps import __version__

    if version != __version__:
        reason = f"was built for fastqps {version}, but this is {__version__}"
    elif (root / "csrc").is_dir() and sources != checksum(name, root):
        reason = f"was built from other sources than those in {root}"
    else:
        return
    raise StaleExtension(f"fastqps.{name} {reason}; in a source tree run: make build; else reinstall fastqps")


def stale(error: BaseException) -> StaleExtension | None:
    """Returns the exception of ``check`` if it made an import fail, else None. pybind11 hides it behind "initialization
    failed"."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, StaleExtension):
        cause = cause.__cause__
    return cause
