"""Settings that name files and folders, with paths that hold in every working directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from fastqps.config.settings import Setting

_NAMES_FILES = ("FILE", "DIR", "NAME_OR_DIR")  # the metavars of such settings


def absolute(setting: Setting, value: Any) -> Any:
    """``value`` with every path in it made absolute, relative to the working directory. Symbolic links are kept."""
    if setting.key == "device":
        return ",".join(_device(part.strip()) for part in value.split(","))
    if not value or setting.meaning.metavar not in _NAMES_FILES:
        return value
    return tuple(_named(part) for part in value) if isinstance(value, tuple) else os.path.abspath(value)


def _named(text: str) -> str:
    """PATH, NAME=PATH, or the name of a packaged model or of one at the hub."""
    from fastqps.models.hub import is_hub
    from fastqps.models.names import PACKAGED  # it reads checkpoints, which few commands do

    name, equals, path = text.partition("=") if "=" in text else ("", "", text)
    return f"{name}{equals}{path if path in PACKAGED or is_hub(path) else os.path.abspath(Path(path).expanduser())}"


def _device(text: str) -> str:
    """A modelled device may name the file of its profile."""
    kind, _, name = text.partition(":")
    return f"sim:{os.path.abspath(name)}" if kind == "sim" and ("/" in name or name.endswith(".toml")) else text
