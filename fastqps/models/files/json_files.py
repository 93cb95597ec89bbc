"""JSON files of a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fastqps.models.card import ModelError


def read_json(path: Path) -> Any:
    """A JSON file's value; ``ModelError`` names the file if it is not readable or not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path}: {error}") from error


def read_object(path: Path) -> dict[str, Any]:
    """A JSON file's object; ``ModelError`` names the file if it holds none."""
    found = read_json(path)
    if not isinstance(found, dict):
        raise ModelError(f"{path}: not a JSON object")
    return found


def optional_object(path: Path) -> dict[str, Any]:
    """A JSON file's object, or an empty one where there is no such file; ``ModelError`` as ``read_object``."""
    return read_object(path) if path.is_file() else {}
