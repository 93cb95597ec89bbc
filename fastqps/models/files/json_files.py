"""JSON files of a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastqps.errors import ModelError
from fastqps.files.documents import parse_json
from fastqps.models.files.regular import has_file, read_regular

# Values take up to 30 times as much memory as their text.
_BYTES_MAX = 16 << 20
TOKENIZER_BYTES_MAX = 64 << 20
_TOKENIZERS = ("tokenizer.json", "_tokenizer_config.json")  # the ends of names of files that hold a vocabulary


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
