"""The front door's reader of JSON bodies against Python's ``json``: what it takes, and what it reads.

FASTQPS_FUZZ=SECONDS runs the random test for that long.
"""

from __future__ import annotations

import json
import os
import random
import re
import time
from typing import Any

import pytest
from wire import wire

FUZZ_SECONDS = float(os.environ.get("FASTQPS_FUZZ", "0"))
BODIES = 20_000  # of the random test where no time is given
BOM = b"\xef\xbb\xbf"
DEPTH_MAX = 1024  # of arrays and objects in each other

NUMBERS = ["0", "-0", "-1", "7", "18446744073709551615", "-9223372036854775808", "1.5", "-0.0", "1e5", "1E+2", "5e-324",
           "2.2250738585072011e-308", "0.1", "123456789.123456789123456789", "1e-400", "1.7976931348623157e308",
           "9007199254740993", "4503599627370496.5"]  # fmt: skip
STRINGS = ['""', '"a"', '"Z\u00fcrich \u6771\U0001f600"', r'"\" \\ \/ \b \f \n \r \t"', r'"\u00fc\ud83d\ude00"',
           r'"\u0000"', '"\u007f\u2028"', r'"\uFFFF\uabCD"', '"' + "x" * 100 + '"']  # fmt: skip
# What neither may take, or both: in place of a value.
ODD = ["01", "-", "+1", ".5", "1.", "1e", "0x1", "tru", "nul", "True", "NaN", "Infinity", "-Infinity", "'a'", '"\n"',
       '"\t"', '"\\x"', '"\\u12"', '"\\u12g4"', '"a', "[1,]", "[,1]", "[1 2]", '{"a":1,}', '{"a"}', '{a:1}', '{"a":}',
       "/**/1", "", "}", "]", "\x00", "\x0c", "\u00a0", "\ufeff"]  # fmt: skip

DAMAGE = [b"", b"\x00", b'"', b"\\", b",", b"}", b"{", b"\xff", b"\xc3", b"\xed\xa0\x80", b"0", b"e9", BOM,
          b"\\ud800", b"\n"]  # fmt: skip


class Unread(Exception):
    """JSON that Python reads and a front door may refuse: docs/http.md lists it."""


def check(value: Any) -> None:
    """Raises ``Unread`` if a front door need not read this value, ValueError if it must not."""
    if isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value):
        raise ValueError("half a character, which UTF-8 does not have")
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise Unread("an integer beyond 64 bits")
    if isinstance(value, float) and abs(value) == float("inf"):
        raise Unread("a number beyond those of a double")


def reference(body: bytes) -> dict[str, Any]:
    """What Python reads. Raises ValueError."""

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is no JSON")

    if body.startswith(BOM):
        raise Unread("a byte order mark")  # newer releases of simdjson skip it
    checked = []

    def pairs(fields: list[tuple[str, Any]]) -> dict[str, Any]:
        checked.extend(name for name, _ in fields)
        checked.extend(value for _, value in fields)
        return dict(fields)

    found = json.loads(body.decode(), parse_constant=refuse, object_pairs_hook=pairs)
    if not isinstance(found, dict):
        raise ValueError("not an object")
    # Of repeated names all values are there.
    waiting = checked
    while waiting:
        value = waiting.pop()
        check(value)
        if isinstance(value, list):
            waiting.extend(value)
    return found


def same(found: Any, expected: Any) -> bool:
    """Equal, with the types and signs of numbers."""
    if type(found) is not type(expected):
        return False
    if isinstance(found, dict):
        return list(found) == list(expected) and all(same(found[name], expected[name]) for name in found)
    if isinstance(found, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    return bool(found == expected) and repr(found) == repr(expected)


def compare(body: bytes) -> str:
    """How both took a body."""
    try:
        found = wire.parse_json(body)
    except ValueError:
        found = None
    try:
        expected = reference(body)
    except Unread:
        return "unread"
    except ValueError:
        assert found is None, (body, found)
        return "refused"
    assert found is not None and same(found, expected), (body, found, expected)
    return "read"


class Bodies:
    """Bodies at random, valid or damaged."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def body(self) -> bytes:
        text = self._object(4)
        if self.chance.random() < 0.3:
            text = self._space() + text + self._space()
        data = text.encode()
        if self.chance.random() < 0.5:
            return data
        for _ in range(self.chance.randrange(1, 4)):
            at = self.chance.randrange(len(data) + 1)
            cut = self.chance.choice((0, 0, 1, 1, 3))
            put = self.chance.choice((*DAMAGE, bytes([self.chance.randrange(256)])))
            data = data[:at] + put + data[at + cut :]
        return data

    def _space(self) -> str:
        return "".join(self.chance.choices(" \t\r\n", k=self.chance.randrange(4)))

    def _value(self, left: int) -> str:
        kind = self.chance.randrange(8 if left else 5)
        if kind == 0:
            return self.chance.choice(("true", "false", "null"))
        if kind == 1:
            return self.chance.choice(NUMBERS)
        if kind == 2:
            return self._number()
        if kind < 5:
            return self.chance.choice(STRINGS) if self.chance.random() < 0.98 else self.chance.choice(ODD)
        if kind == 5:
            return self._object(left - 1)
        values = (self._value(left - 1) for _ in range(self.chance.randrange(5)))
        return "[" + (self._space() + "," + self._space()).join(values) + "]"

    def _number(self) -> str:
        digits = "".join(self.chance.choices("0123456789", k=self.chance.randrange(1, 25)))
        sign, whole = self.chance.choice(("", "-")), digits.lstrip("0") or "0"
        if self.chance.random() < 0.5:
            return sign + whole
        return f"{sign}{whole}.{digits}e{self.chance.randrange(-330, 310)}"

    def _object(self, left: int) -> str:
        names = [self.chance.choice(STRINGS) for _ in range(self.chance.randrange(5))]  # often repeated
        fields = (f"{name}{self._space()}:{self._space()}{self._value(max(left - 1, 0))}" for name in names)
        return "{" + self._space() + ",".join(fields) + self._space() + "}"


@pytest.mark.parametrize("text", [*NUMBERS, *STRINGS, *ODD])
def test_each_value(text: str) -> None:
    for body in (f'{{"a":{text}}}', f'{{"a":[{text}, {text}]}}', f'{{"b":{text},"a":1}}', text):
        compare(body.encode())


@pytest.mark.parametrize("text", [*NUMBERS, *STRINGS])
def test_what_is_valid_is_read(text: str) -> None:
    assert compare(f'{{"a":{text}}}'.encode()) == "read"


@pytest.mark.parametrize(
    "bad", [b"\x00", b"\xff", b"\xc3", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82"]
)
def test_bytes_that_are_no_text(bad: bytes) -> None:
    for body in (b'{"a":"' + bad + b'"}', b'{"' + bad + b'":1}', b'{"a":1}' + bad, bad + b'{"a":1}', bad):
        assert compare(body) == "refused"


@pytest.mark.parametrize("half", [r"\ud800", r"\udfff", r"\ud83d\ud83d", r"\ude00\ud83d", r"\ud83dx", r"\ud83d\u0041"])
def test_surrogates_without_their_other_half(half: str) -> None:
    for body in (f'{{"a":"{half}"}}', f'{{"{half}":1}}', f'{{"a":"{half}","a":1}}'):
        assert compare(body.encode()) == "refused"


WHERE = {
    rb'{"a":"\ud800"}': "a",
    rb'{"input":["a","\udfff\ud800","b"]}': "input[1]",
    b'{"input":["a",{},[1,2],"\xff"]}': "input[3]",
    rb'{"inputs":[["a","b"],["c","\ud83dx"]]}': "inputs[1][1]",
    rb'{"a":"\"","inputs" : {"x":[1,2],"sentences":["\\ud800","\ud83d\ude00","\ude00"]}}': "inputs.sentences[2]",
    rb'{"inputs":[{"name":"x"},{"name":"t","data":["a",["b","\ude00"]]}]}': "inputs[1].data[1][1]",
    rb'{"\ud800":1}': "a name",
    rb'{"a":[[[[[[[[[["b"],"\ud800"]]]]]]]]],"b":1}': "a[0][0][0][0][0][0][0]",
}


@pytest.mark.parametrize("body", WHERE)
def test_the_first_string_that_is_no_text_is_named(body: bytes) -> None:
    with pytest.raises(ValueError, match=re.escape(f": {WHERE[body]} holds half of a surrogate pair")):
        wire.parse_json(body)


def test_other_encodings() -> None:
    assert compare('{"a":1}'.encode("utf-16")) == "refused"


@pytest.mark.parametrize("text", ["18446744073709551616", "-9223372036854775809", "1" + "0" * 400, "1e309", "-1e999"])
def test_numbers_that_are_too_large(text: str) -> None:
    assert compare(f'{{"a":{text}}}'.encode()) == "unread"
    with pytest.raises(ValueError, match=r"^a number beyond 64 bits"):
        wire.parse_json(f'{{"a":{text}}}'.encode())


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_nesting_has_a_limit(opening: str, closing: str) -> None:
    for depth in (10, 300):
        assert compare(('{"a":' + opening * depth + "1" + closing * depth + "}").encode()) == "read"
    for depth in (DEPTH_MAX, 100_000):
        for end in ("", closing * depth + "}"):
            with pytest.raises(ValueError, match="the body is not valid JSON"):
                wire.parse_json(('{"a":' + opening * depth + "1" + end).encode())


def test_bodies_at_random() -> None:
    bodies, outcomes = Bodies(1), dict.fromkeys(("read", "refused", "unread"), 0)
    end = time.monotonic() + FUZZ_SECONDS
    while sum(outcomes.values()) < BODIES or time.monotonic() < end:
        outcomes[compare(bodies.body())] += 1
    print(outcomes)
    assert min(outcomes["read"], outcomes["refused"]) > BODIES // 5
