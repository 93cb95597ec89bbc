"""Structures for texts of a tiny generator: some of each kind, and random JSON schemas."""

from __future__ import annotations

import json
import random
from typing import Any

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 6}, "old": {"type": "boolean"}, "n": {"enum": [1, 22]}},
    "required": ["name", "old", "n"],
    "additionalProperties": False,
}
STRUCTURES: dict[str, dict[str, Any]] = {
    "schema": {"json_schema": PERSON},
    "schema-text": {"json_schema": json.dumps(PERSON)},
    "object": {"json_object": True},
    "regex": {"regex": "[a-c]{3,9}(x|yz)"},
    "grammar": {"grammar": 'start: "a" number ("," number)*\nnumber: /[0-9]{1,3}/'},
    "none": {},
}
SAMPLED = {"temperature": 1.1, "top_p": 0.9, "seed": 4, "top_logprobs": 5}


def random_schema(chance: random.Random, depth: int = 0) -> dict[str, Any]:
    """A schema whose texts are short."""
    kinds = ["string", "integer", "boolean", "enum", "const", "null", "pattern"] + ["object", "array", "any"] * (
        depth < 2
    )
    match chance.choice(kinds):
        case "string":
            return {"type": "string", "maxLength": chance.randint(0, 5)}
        case "integer":
            low = chance.randint(-50, 50)
            return {"type": "integer", "minimum": low, "maximum": low + chance.randint(0, 300)}
        case "enum":
            return {"enum": chance.sample(["a", "bc", 1, 2.5, None, True, "Zürich"], chance.randint(1, 5))}
        case "const":
            return {"const": chance.choice(["x", 7, False, None])}
        case "pattern":
            return {"type": "string", "pattern": chance.choice(["^[a-c]{1,3}$", "^(on|off)$", "^[0-9]{2}-[0-9]{2}$"])}
        case "object":
            names = chance.sample("abcdef", chance.randint(0, 3))
            return {
                "type": "object",
                "properties": {name: random_schema(chance, depth + 1) for name in names},
                "required": chance.sample(names, chance.randint(0, len(names))),
                "additionalProperties": False,
            }
        case "array":
            least = chance.randint(0, 2)
            items = random_schema(chance, depth + 1)
            return {"type": "array", "items": items, "minItems": least, "maxItems": least + chance.randint(0, 1)}
        case "any":
            return {"anyOf": [random_schema(chance, depth + 1) for _ in range(2)]}
        case kind:
            return {"type": kind}
