"""Profile files of modelled devices, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def write_profile(path: Path, step: dict[str, Any], host: dict[str, Any] | None = None, **keys: Any) -> str:
    """Writes a profile named after the file, for an encoder unless ``task`` says otherwise; its path."""
    keys = {"name": path.stem, "status": "estimated", "source": "a test", "task": "embed", **keys}
    lines = [f"{key} = {_toml(value)}" for key, value in keys.items() if value is not None]
    for section, found in (("step", step), ("host", host or {})):
        lines += [f"[{section}]", *(f"{key} = {_toml(value)}" for key, value in found.items())]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
