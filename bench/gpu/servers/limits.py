"""What a running server can change, so that one start serves many points: ``POST /limits`` of its admin port."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from fastqps.bench.measure.target import Settings
from fastqps.bench.results.result import BenchError

NAMES = {"lanes": "lanes", "max-running": "running", "max-batch-items": "items"}
ANSWER_S = 10.0
Limits = dict[str, Any]  # by /limits' name


def of(base: Settings, settings: Settings) -> Limits:
    """What a server that started with ``base`` runs with: those of ``NAMES`` that ``base`` holds.

    ``ValueError`` for settings that it can only start with.
    """
    if strange := [key for key in settings if key not in NAMES or key not in base]:
        raise ValueError(f"a running server cannot change {', '.join(strange)}")
    return {name: settings.get(key, base[key]) for key, name in NAMES.items() if key in base}


def post(admin: str, limits: Limits) -> None:
    """Sets them on the server's model. ``BenchError`` where it does not run with just these then."""
    request = urllib.request.Request(f"{admin}/limits", json.dumps(limits).encode(), method="POST")
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
            found = json.load(answer)
    except urllib.error.HTTPError as error:
        raise BenchError(f"/limits {limits}: {error.read().decode(errors='replace').strip()}") from None
    except (OSError, ValueError) as error:
        raise BenchError(f"/limits {limits}: {error}") from None
    if other := {key: found.get(key) for key, value in limits.items() if found.get(key) != value}:
        raise BenchError(f"/limits: {limits} were asked for, and the server runs with {other}")
