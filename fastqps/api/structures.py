"""The structure that a generated text has to have, as calls name it: one option out of four."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, get_args

Kind = Literal["json_object", "json_schema", "regex", "grammar"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""The options' names, by their numbers in fastqps.v1.Structure, from 1."""


def structure_of(options: Mapping[str, Any]) -> tuple[Kind, str] | None:
    """(kind, text) of the one that ``options`` name, or None. ``ValueError`` for two of them."""
    given = [kind for kind in KINDS if options.get(kind)]
    if not given:
        return None
    if len(given) > 1:
        raise ValueError(f"{given[0]} and {given[1]}: a text has one structure")
    kind, value = given[0], options[given[0]]
    if kind == "json_object":
        return kind, ""
    if kind == "json_schema" and isinstance(value, Mapping):
        return kind, json.dumps(value, ensure_ascii=False)
    if not isinstance(value, str):
        raise TypeError(f"{kind}: a text{' or a dict' if kind == 'json_schema' else ''}, not {type(value).__name__}")
    return kind, value
