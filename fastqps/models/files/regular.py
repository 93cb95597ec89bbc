"""Opens files of a checkpoint. Every error is a ``ModelError`` that names the file."""

from __future__ import annotations

import os
from io import BufferedReader
from pathlib import Path

from fastqps.errors import ModelError
from fastqps.files import regular


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
    """The file, opened for reading without waiting. ``ModelError`` where it cannot be, or is no regular file."""
    try:
        return regular.open_regular(path)
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror}") from error


def read_regular(path: Path, bytes_max: int) -> bytes:
    """The content of a file. ``ModelError`` where it cannot be read, or is longer than ``bytes_max``."""
    try:
        return regular.read_regular(path, bytes_max)
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror}") from error
