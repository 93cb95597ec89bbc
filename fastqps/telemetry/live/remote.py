"""The counters of a server somewhere, read through its admin port."""

from __future__ import annotations

from typing import Any, cast

from fastqps.files.documents import parse_json
from fastqps.files.shape import fits
from fastqps.telemetry.fetch import FetchError, fetch
from fastqps.telemetry.live.counts import Counts
from fastqps.terminal import shown

PATH = "/live/counts.json"


def fetch_counts(admin: str, timeout_s: float = 10.0) -> Counts:
    """Now. Raises ``FetchError`` where there is no server, or another program or version."""
    try:
        found = _shown(parse_json(fetch(admin, PATH, timeout_s)))
    except ValueError:
        found = None
    if not fits(found, Counts):
        raise FetchError(f"what answers at {admin} is not a fastqps server of this version")
    return cast(Counts, found)


def _shown(found: Any) -> Any:
    """With texts as a terminal can show them."""
    if isinstance(found, dict):
        return {shown(key): _shown(value) for key, value in found.items()}
    if isinstance(found, list):
        return [_shown(value) for value in found]
    return shown(found) if isinstance(found, str) else found
