"""Other values for a key of a checkpoint's JSON file, and which of them give other answers than the reference."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from fastqps.models import ModelError

_WORDS = ("relu", "silu", "gelu_new", "gated-relu", "mean", "left")
Place = tuple[str, *tuple[str | int, ...]]  # a file, and the way from its outermost object to the one with the keys


def other_values(now: Any) -> list[Any]:
    """Null and values beside ``now``; some of each type where that is null. The reference says which are legal."""
    found: list[Any]
    match now:
        case bool():
            found = [not now]
        case int():
            found = [now * 2, now + 1, max(now - 1, 0), now // 2, 0]
        case float():
            found = [now * 2 + 0.5, 1.0]
        case str():
            found = [*_WORDS]
        case list():
            found = [now[::-1], now[:1], []]
        case dict():
            found = [{}]
        case _:
            found = [True, False, 2, 0.5, _WORDS[0], _WORDS[-1], [2], ["full_attention"] * 3]
    return [value for value in [*found, None] if (value, type(value)) != (now, type(now))]


def differing(
    values: Iterable[Any], write: Callable[[Any], None], reference: Callable[[], Any], equals: Callable[[Any], bool]
) -> list[Any]:
    """The values that the ``reference`` reads, that are served, and that give other answers.

    ``equals``: whether the answers are those of the reference; ``ModelError`` where the value is refused.
    """
    found = []
    for value in values:
        write(value)
        try:
            wanted = reference()
        except Exception:  # of any kind: not a legal value
            continue
        try:
            equal = equals(wanted)
        except ModelError:
            continue
        if not equal:
            found.append(value)
    return found


def read_at(folder: Path, place: Place) -> dict[str, Any]:
    """The object at a place; an empty one where there is none."""
    file, *way = place
    found = json.loads((folder / file).read_text()) if (folder / file).exists() else {}
    for step in way:
        found = (found.get(step) or {}) if isinstance(found, dict) else found[step]
    return found  # type: ignore[no-any-return]


def write_at(folder: Path, place: Place, key: str, value: Any) -> None:
    """Sets a key of the object at a place; files and objects that are not there are made."""
    file, *way = place
    outermost = found = json.loads((folder / file).read_text()) if (folder / file).exists() else {}
    for step in way:
        if isinstance(found, dict) and not found.get(step):
            found[step] = {}
        found = found[step]
    found[key] = value
    (folder / file).parent.mkdir(exist_ok=True)
    (folder / file).write_text(json.dumps(outermost))
