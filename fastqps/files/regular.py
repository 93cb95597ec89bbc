"""Opens files whose place anything may take: a pipe nobody writes to, an endless device, a loop of links."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from os import PathLike, fspath


def open_regular(path: str | PathLike[str]) -> BufferedReader:
    """The regular file, opened for reading. It never waits. ``OSError`` where there is none, with a ``strerror``.

    Links are followed, because the hub's cache and Kubernetes' volumes consist of them; the kernel ends a loop of
    links. The first descriptor only names the file: opening a device may already change it.
    """
    try:
        named = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except ValueError as error:  # a name may hold what no name can
        raise OSError(errno.EINVAL, str(error), fspath(path)) from None
    try:
        if not stat.S_ISREG(os.fstat(named).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", fspath(path))
        # Some of the kernel's own files are regular and wait for content nevertheless.
        return os.fdopen(os.open(f"/proc/self/fd/{named}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    except OSError as error:
        raise OSError(error.errno, error.strerror, fspath(path)) from None  # not the name of the descriptor
    finally:
        os.close(named)


def read_regular(path: str | PathLike[str], bytes_max: int) -> bytes:
    """The content of a regular file. ``OSError``, with a ``strerror``, where it cannot be read at once, or is longer
    than ``bytes_max``."""
    with open_regular(path) as stream:
        content = stream.read(bytes_max + 1)
    if content is None:
        raise OSError(errno.EAGAIN, "it has no content yet", fspath(path))
    if len(content) > bytes_max:
        raise OSError(errno.EFBIG, f"it is longer than {_shown(bytes_max)}, which no such file is", fspath(path))
    return content


def _shown(size: int) -> str:
    if size >= 1 << 20:
        return f"{size >> 20} MiB"
    return f"{size >> 10} KiB" if size >= 1 << 10 else f"{size} bytes"
