"""Opens and reads files of a checkpoint. Every error is a ``ModelError`` that names the file."""

from __future__ import annotations

import os
from io import BufferedReader
from pathlib import Path
from typing import Any

from fastqps.errors import ModelError
from fastqps.files import regular
from fastqps.files.documents import parse_json

# Values take up to 30 times as much memory as their text.
_BYTES_MAX = 16 << 20
TOKENIZER_BYTES_MAX = 64 << 20
_TOKENIZERS = ("tokenizer.json", "_tokenizer_config.json")  # the ends of names of files that hold a vocabulary


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


def read_json(path: Path) -> Any:
    """A JSON file's value; ``ModelError`` names the file if it is not readable, not JSON, or longer than any is."""
    try:
        return parse_json(read_regular(path, bytes_max(path)))
    except ValueError as error:
        raise ModelError(f"{path}: {error}") from error


def bytes_max(path: Path) -> int:
    """The most that a JSON file of this name may hold."""
    return TOKENIZER_BYTES_MAX if path.name.endswith(_TOKENIZERS) else _BYTES_MAX


def read_object(path: Path) -> dict[str, Any]:
    """A JSON file's object; ``ModelError`` names the file if it holds none."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise ModelError(f"{path}: not a JSON object")
    return value


def optional_object(path: Path) -> dict[str, Any]:
    """A JSON file's object, or an empty one where there is no such file; ``ModelError`` as ``read_object``."""
    return read_object(path) if has_file(path) else {}
