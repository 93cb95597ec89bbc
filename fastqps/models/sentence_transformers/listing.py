"""modules.json: which modules a sentence-transformers checkpoint lists, and where they lie."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from fastqps.errors import ModelError
from fastqps.models.files.keys import Keys
from fastqps.models.files.reading import read_json
from fastqps.models.sentence_transformers.keys import MODULE


class ListedModule(NamedTuple):
    """A module's class, its folder ("" is the checkpoint's own), and its name, if it has one."""

    type: str
    folder: str
    name: str | None


def read_listing(file: Path) -> list[ListedModule]:
    """The modules in order. ``ModelError``, with the entry, where one is none or leads out of the checkpoint."""
    entries = read_json(file)
    if not isinstance(entries, list):
        raise ModelError(f"{file}: not a JSON list of modules")
    return [_module(file, entry) for entry in entries]


def _module(file: Path, entry: Any) -> ListedModule:
    if not isinstance(entry, dict):
        raise ModelError(f"{file}: a module is no JSON object: {_shown(entry)}")
    module = Keys(str(file), entry, MODULE)
    for key in ("type", "path"):
        if key not in module:
            raise ModelError(f"{file}: a module has no {key}: {_shown(entry)}")
        if not isinstance(module[key], str):
            raise ModelError(f"{file}: a module's {key} is no text: {_shown(entry)}")
    name = module.get("name")
    if not isinstance(name, str | None):
        raise ModelError(f"{file}: a module's name is no text: {_shown(entry)}")
    folder = PurePosixPath(module["path"])
    if folder.is_absolute() or ".." in folder.parts:
        raise ModelError(f"{file}: path {module['path']!r} leads out of the checkpoint's folder")
    return ListedModule(module["type"], "" if folder == PurePosixPath() else str(folder), name)


def _shown(entry: Any) -> str:
    return json.dumps(entry)[:200]
