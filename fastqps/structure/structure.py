"""What a text has to be: the structure that a request names, and how llguidance writes it."""

from __future__ import annotations

from typing import NamedTuple

from fastqps.api.structures import Kind
from fastqps.files.documents import parse_json

_JSON_OBJECT = '{"type": "object"}'


class Structure(NamedTuple):
    """A kind, and the text of the schema, expression or grammar (Lark). That of a ``json_object`` is empty."""

    kind: Kind
    text: str = ""

    def grammar(self) -> str:
        """In llguidance's form. ``ValueError`` if the text is no JSON where it has to be."""
        from llguidance import LLMatcher

        match self.kind:
            case "json_object":
                return LLMatcher.grammar_from_json_schema(_JSON_OBJECT)
            case "json_schema":
                return LLMatcher.grammar_from_json_schema(_checked(self.text))
            case "regex":
                return LLMatcher.grammar_from_regex(self.text)
            case "grammar":
                return LLMatcher.grammar_from_lark(self.text)


def _checked(schema: str) -> str:
    """The text itself. ``ValueError`` names the place where it stops to be JSON."""
    try:
        parse_json(schema.encode())
    except ValueError as error:
        raise ValueError(f"the schema is no JSON: {error}") from None
    return schema
