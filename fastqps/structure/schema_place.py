"""The place of a mistake in a JSON Schema, which llguidance's errors do not name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from fastqps.files.documents import parse_json

# Errors about one part. They come before the automata are built, so they cost little. Others are about the whole.
_MISTAKES = ("Invalid ", "Unimplemented ", "Expected ", "Unknown ", "Unsupported ", "regex parse error")
_TRIES = 64  # parts that are compiled to find one: bounds the work for a wide schema
_PLACE_MAX = 120  # characters
_DEFINITIONS = ("$defs", "definitions")
_NAMED = ("properties", "patternProperties")
_VALUES = ("const", "default", "enum", "examples")


def place_of(schema: str, reason: str, refusal_of: Callable[[str], str]) -> str:
    """A JSON pointer to the innermost part that is refused for the reason of the whole; "" if that is the whole.

    ``refusal_of`` returns why a schema is refused, or "". If the tries do not suffice, the place ends above the part.
    """
    root = parse_json(schema.encode())
    if not isinstance(root, dict) or not reason.startswith(_MISTAKES):
        return ""
    shared = {key: root[key] for key in _DEFINITIONS if key in root}
    place, part, seen, tries = "#", root, {""}, _TRIES
    found = True
    while found:
        found = False
        for below, inner in _parts(place, part, root):
            if below in seen or inner.get("$ref") in seen:
                continue
            tries -= 1
            if tries >= 0 and refusal_of(json.dumps({**shared, **inner})) == reason:
                place, part, found = below, inner, True
                seen.add(below)
                break
    if place == "#":
        return ""
    return place if len(place) <= _PLACE_MAX else f"{place[:_PLACE_MAX]}…"


def _parts(place: str, schema: dict[str, Any], root: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The schemas right inside a schema with their pointers. A reference is at the place that it names."""
    pointer = schema.get("$ref")
    if isinstance(pointer, str) and pointer.startswith("#/") and isinstance(named := _at(root, pointer), dict):
        yield pointer, named
    for key, value in schema.items():
        if key in _DEFINITIONS or key in _VALUES:  # definitions count where they are used
            continue
        below = f"{place}/{_escaped(key)}"
        if isinstance(value, list):
            yield from ((f"{below}/{i}", each) for i, each in enumerate(value) if isinstance(each, dict))
        elif isinstance(value, dict) and key in _NAMED:
            named_parts = ((f"{below}/{_escaped(name)}", each) for name, each in value.items())
            yield from ((at, each) for at, each in named_parts if isinstance(each, dict))
        elif isinstance(value, dict):
            yield below, value


def _at(root: Any, pointer: str) -> Any:
    for name in pointer.split("/")[1:]:
        root = root.get(name.replace("~1", "/").replace("~0", "~")) if isinstance(root, dict) else None
    return root


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
