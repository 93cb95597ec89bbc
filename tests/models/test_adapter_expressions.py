"""Expressions of adapters: they match what Python's ``re`` matches, and none takes long."""

from __future__ import annotations

import random
import re
import time

import pytest

from fastqps.models import ModelError
from fastqps.models.adapters.patterns import Expression, Steps

ATOMS = [*"ab1.^$", r"\.", "[ab]", "[^a]", "[a-c.]", r"[^\d.]", r"\d", r"\W", r"\s", r"\Z", r"\b", r"\B"]
REPEATS = ["*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}", "{0,2}?", "{2,}"]


def an_expression(rng: random.Random, depth: int = 0) -> str:
    kind = rng.random() if depth < 4 else 0
    if kind < 0.45:
        return rng.choice(ATOMS)
    first, second = (an_expression(rng, depth + 1) for _ in range(2))
    if kind < 0.65:
        return first + second
    return f"(?:{first}|{second})" if kind < 0.8 else f"({first}){rng.choice(REPEATS)}"


def test_as_python_matches() -> None:
    rng, matched = random.Random(0), 0
    for _ in range(1500):
        text = an_expression(rng)
        theirs, ours = re.compile(text), Expression("x", text, Steps())
        for _ in range(8):
            name = "".join(rng.choice("aab.1\nc_ ") for _ in range(rng.randrange(8)))
            found = theirs.fullmatch(name)
            matched += found is not None
            assert ours.matches(name) is (found is not None), (text, name)
            starts = [0, *(at + 1 for at, letter in enumerate(name) if letter == ".")]
            assert ours.ends(name) is any(theirs.fullmatch(name, start) for start in starts), (text, name)
    assert matched > 500


@pytest.mark.parametrize(
    "text",
    [
        ".*.*.*.*.*.*b",
        "(a+) +b",
        "(a|.)" * 60 + "b",
        "(a*)*b",
        "(((?:){9999}){9999}){9999}b",
        "(.?){400}b",
        "((a{100}){100}){100}",
        "z" * 1999,
        "z(" + "|" * 1990 + ")",
        "z" + "(ab)*" * 390,
        "(" + "|" * 1900 + ".?){9999}b",
        "(" + "()" * 900 + ".?){9999}b",
        "(" + "(ab){0}" * 250 + ".?){9999}b",
        "([" + "".join(map(chr, range(0x10000, 0x10000 + 3800, 2))) + "]|.?){9999}b",
    ],
)
def test_no_expression_takes_long(text: str) -> None:
    """A quarter of the steps, with as many names as that is."""
    steps = Steps()
    steps.take(7_500_000)
    expression, began = Expression("target_modules", text, steps), time.thread_time()
    with pytest.raises(ModelError, match="steps"):
        while time.thread_time() - began < 1.5:
            assert not expression.matches("a" * 300)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("(?x)(a+) +b", "it has flags"),
        ("(?i:a)", "it has flags"),
        ("(?!a)b", "it has assert_not; letters"),
        (r"(a)\1", "it has groupref"),
        ("(?>a)", "it has atomic_group"),
        ("a" * 2001, "of at most 2000 characters"),
        ("(" * 900 + ")" * 900, "recursion"),
        ("a**", "multiple repeat"),
        (["a"], "no regular expression"),
    ],
)
def test_refused(text: str, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        Expression("target_modules", text, Steps())


def test_all_expressions_of_an_adapter_share_their_steps() -> None:
    steps = Steps()
    expressions = [Expression("rank_pattern", ".?" * 900 + "b", steps) for _ in range(2)]
    with pytest.raises(ModelError, match="take more than 10000000 steps; name the modules in lists"):
        for _ in range(100):
            assert not any(expression.ends("a." * 150) for expression in expressions)


def test_reading_an_expression_takes_steps() -> None:
    steps = Steps()
    Expression("rank_pattern", "b" * 2000, steps)
    steps.take(9_930_000)
    with pytest.raises(ModelError, match="take more than 10000000 steps"):
        Expression("rank_pattern", "b" * 2000, steps)
