"""Capacity files for servers of MiniLM on the null device."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fastqps.models import load_card


def capacity_file(path: Path, **more: Any) -> str:
    """Writes one; its path. ``more``: what it says besides, or instead."""
    version = load_card("minilm").version
    found = {"schema_version": 1, "model": "minilm", "version": version, "device": "null", "settings": {}}
    texts = dict.fromkeys(("measured", "commit", "command"), "")
    path.write_text(json.dumps({**found, **texts, "rate": 1e5, "in_flight": 50, **more}))
    return str(path)
