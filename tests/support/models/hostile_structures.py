"""Structures that cost much more than their 64 KiB: in time, memory or depth."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator

from fastqps.structure.structure import Structure

BYTES_MAX = 64 << 10  # of the text of a structure
_SPREAD = 2654435761  # numbers that are alike in no prefix


def _many(part: Callable[[int], str], between: str = ",", room: int = 64_000) -> str:
    """As many parts as there is room for."""

    def parts() -> Iterator[str]:
        used = 0
        for i in itertools.count():
            used += len(text := part(i)) + len(between)
            if used > room:
                return
            yield text

    return between.join(parts())


def _word(i: int) -> str:
    return f"{i * _SPREAD % 2**32:x}"


def _nested(depth: int, opened: str, inside: str, closed: str) -> str:
    return opened * depth + inside + closed * depth


def _doubled(rule: Callable[[int], str], between: str = ",") -> str:
    return between.join(rule(i) for i in range(1, 40))


def _refs(form: str) -> str:
    """39 definitions, each of two of the one before."""
    rules = _doubled(lambda i: f'"a{i}": {form}'.replace("REF", f'{{"$ref": "#/$defs/a{i - 1}"}}'))
    return f'{{"$defs": {{"a0": {{"type": "string"}}, {rules}}}, "$ref": "#/$defs/a39"}}'


def _one_of_two(levels: int) -> str:
    if not levels:
        return "{}"
    inner = _one_of_two(levels - 1)
    return f'{{"type": "array", "items": {{"anyOf": [{inner}, {inner}]}}}}'


_SCHEMAS = {
    "deep items": _nested(90, '{"items":', "{}", "}"),
    "deeper items": _nested(3000, '{"items":', "{}", "}"),
    "deep JSON": _nested(30_000, "[", "1", "]"),
    "deep objects": _nested(60, '{"type":"object","properties":{"a":', "{}", "}}"),
    "a tree of choices": _one_of_two(10),
    "itself": '{"$ref": "#"}',
    "each other": '{"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}',
    "a recursive tree": json.dumps({
        "$defs": {"n": {"type": "object", "properties": {k: {"$ref": "#/$defs/n"} for k in "lr"}}},
        "$ref": "#/$defs/n",
    }),
    "2^39 parts at once": _refs('{"allOf": [REF, REF]}'),
    "2^39 choices": _refs('{"anyOf": [REF, REF]}'),
    "2^39 items": _refs('{"prefixItems": [REF, REF], "minItems": 2}'),
    "2^40 branches": json.dumps({"allOf": [
        {"anyOf": [{"properties": {f"{i}": {"type": t}}} for t in ("string", "integer")]} for i in range(40)
    ]}),
    "300 patterns at once": json.dumps({"type": "string", "allOf": [{"pattern": f"a.{{{i}}}b"} for i in range(300)]}),
    "long patterns at once": json.dumps({"allOf": [
        {"anyOf": [{"type": "string", "pattern": f"^.*a{i}.{{{i}}}$"}, {"type": "string", "pattern": f"b{i}"}]}
        for i in range(12)
    ]}),
    "an enum of words": f'{{"enum": [{_many(lambda i: json.dumps(_word(i)))}]}}',
    "an enum of numbers": f'{{"enum": [{_many(lambda i: f"{i * 7919 % 100_003}")}]}}',
    "an enum of arrays": f'{{"enum": [{_many(lambda i: f"[[[{i}]]]")}]}}',
    "a long constant": json.dumps({"const": "a" * 64_000}),
    "a large constant": f'{{"const": {{{_many(lambda i: f"{chr(34)}{i}{chr(34)}:{i}")}}}}}',
    "properties": f'{{"type": "object", "properties": {{{_many(lambda i: f"{chr(34)}{i:x}{chr(34)}:{{}}")}}}}}',
    "patterns of properties": json.dumps({"patternProperties": {f"^a{i:x}.*$": {} for i in range(3000)}}),
    "items": f'{{"type": "array", "prefixItems": [{_many(lambda i: "{}")}]}}',
    **{
        f"{key} {value}": f'{{"type": "{kind}", "{key}": {value}}}'
        for kind, ends in (("string", "Length"), ("array", "Items"), ("object", "Properties"))
        for key in (f"min{ends}", f"max{ends}")
        for value in (10**5, 10**9, 2**64 - 1, "1e300")
    },
    "1000^20 items": '{"type": "array", "minItems": 1000, "items": ' * 20 + "{}" + "}" * 20,
    "multiples of a prime": '{"type": "integer", "multipleOf": 1000003}',
    "multiples of a larger prime": '{"type": "integer", "multipleOf": 2147483647}',
    "multiples of many": json.dumps({"allOf": [{"type": "integer", "multipleOf": p} for p in (7, 11, 13, 17, 19, 23)]}),
    "a pattern and a length": json.dumps({"type": "string", "pattern": "^(.*a.{200})*$", "maxLength": 10**6}),
    "slow spaces": json.dumps({"x-guidance": {"whitespace_pattern": "(( |\n){1,1000}){1,1000}"}, "type": "object"}),
}  # fmt: skip
_EXPRESSIONS = {
    "repeated repeats": "(a{1,1000}){1,1000}",
    "four levels of repeats": "((((a{1,1000}){1,1000}){1,1000}){1,1000})",
    "four levels of exact repeats": "((((a{1000}){1000}){1000}){1000})",
    "repeats with ends": "(((([ab]c?){1,1000}d?){1,1000}e?){1,1000}f?){1,1000}",
    "2^1000 states": "(a|b)*a(a|b){1000}",
    "anything before the end": "(.*[a-y].{20}){20}",
    "many stars": "(.*a)" * 2000,
    "stars of stars": "(" * 90 + "a" + ")*" * 90,
    "400 groups": "(" * 400 + "a" + ")*" * 400,
    "20,000 groups": "(" * 20_000 + "a" + ")" * 20_000,
    "a long literal": "a" * 64_000,
    "optional letters": "a?" * 32_000,
    "optional letters and their number": "a?" * 16_000 + "a" * 30_000,
    "stars": "(a*)" * 12_000,
    "words": f"({_many(_word, '|')})",
    "words anywhere": f"({_many(lambda i: f'.*{_word(i)}.*', '|')})",
    "letters of all scripts": r"\p{L}\p{Lu}\p{N}" * 4000,
    "100,000 letters": "a{100000}",
    "a billion letters": "a{1000000000}",
    "a long window": r"[\s\S]{0,60000}x[\s\S]{0,60000}",
    "ambiguous": "(a|a|a|a)" * 4000,
}
_GRAMMARS = {
    "left recursion": 'start: start "a" | "a"',
    "indirect left recursion": 'start: b "a" | "a"\nb: start "c" | b b | "d"',
    "nothing but itself": "start: start",
    "ambiguous": 'start: start start start | start start | "a" | ',
    "empty rules": 'start: a* "x"\na: b*\nb: c*\nc: ',
    "8,000 optional rules": f'start: {" ".join(["a?"] * 8000)}\na: "x"',
    "2^39 rules": "start: a39\n" + _doubled(lambda i: f"a{i}: a{i - 1} a{i - 1}", "\n") + '\na0: "x"',
    "2^39 empty rules": 'start: a39 "y"\n' + _doubled(lambda i: f"a{i}: a{i - 1} a{i - 1}", "\n") + '\na0: "x" | ',
    "2^39 terminals": "start: A39\n" + _doubled(lambda i: f"A{i}: A{i - 1} A{i - 1}", "\n") + '\nA0: "x"',
    "1000^5 terminals": "start: A5\n" + "\n".join(f"A{i}: A{i - 1}~1..1000" for i in range(1, 6)) + '\nA0: "x"',
    "1000^5 rules": "start: a5\n" + "\n".join(f"a{i}: a{i - 1}~1..1000" for i in range(1, 6)) + '\na0: "x"',
    "10^12 rules": 'start: a{1000000}\na: b{1000000}\nb: "x"',
    "many terminals": f"start: ({_many(lambda i: f'T{i}', '|', 11_000)})*\n"
    + _many(lambda i: f"T{i}: /.*a{i:x}.{{40}}/", "\n", 50_000),
    "many words": f"start: ({_many(lambda i: json.dumps(_word(i)), '|')})*",
    "deep groups": "start: " + _nested(30_000, "(", '"a"', ")"),
    "many schemas": "start: " + ' %json {"type":"object"}' * 2000,
    "all but many": "start: A\nA: " + " & ".join(f"~/.*{chr(97 + i)}.{{20}}.*/" for i in range(26)),
    "parts of a text": 'start: A\nA: %regex {"substring_chars": "' + "ab" * 20_000 + '"}',
}

HOSTILE = {
    **{f"schema, {name}": Structure("json_schema", text) for name, text in _SCHEMAS.items()},
    **{f"regex, {name}": Structure("regex", text) for name, text in _EXPRESSIONS.items()},
    **{f"grammar, {name}": Structure("grammar", text) for name, text in _GRAMMARS.items()},
}
# The library alone compiles these for seconds, or with more than 64 MiB.
TOO_MUCH = (
    "schema, 300 patterns at once",
    "schema, multiples of a prime",
    "schema, properties",
    "regex, optional letters",
    "regex, optional letters and their number",
    "regex, four levels of exact repeats",
    "regex, stars",
    "regex, a billion letters",
    "grammar, 2^39 terminals",
)
