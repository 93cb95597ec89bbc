"""Opens files of a checkpoint, which may be anything: a pipe nobody writes to, an endless device, a loop of links."""

from __future__ import annotations

import os
import stat
from io import BufferedReader
from pathlib import Path

from fastqps.models.card import ModelError


def has_file(path: Path) -> bool:
    """Whether there is such a file. ``ModelError`` where there is something else of this name, or it cannot be reached:
    a model without the file may be another one."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: {error}") from error
    open_regular(path).close()
    return True


def open_regular(path: Path) -> BufferedReader:
    """The file, opened for reading. ``ModelError`` names it where it cannot be, or is no regular file: it never waits
    for one."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:  # a name may hold what no name can
        raise ModelError(f"{path}: {getattr(error, 'strerror', error)}") from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ModelError(f"{path}: it is no regular file")
    return os.fdopen(handle, "rb")


def read_regular(path: Path, bytes_max: int) -> bytes:
    """The content of a file. ``ModelError`` where it cannot be read, or is longer than ``bytes_max``."""
    try:
        with open_regular(path) as stream:
            content = stream.read(bytes_max + 1)
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror}") from error
    if len(content) > bytes_max:
        raise ModelError(f"{path}: longer than {bytes_max >> 20} MiB, which no such file is")
    return content
