"""Texts of ordinary words, always the same ones for a seed, with lengths from a distribution.

fixed:N · uniform:A,B · normal:MEAN,SD · lognormal:MEDIAN,SIGMA     in words, at least 1; a plain N is fixed:N
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from loadgen.errors import UsageError
from loadgen.units import number

WORDS_MAX = 100_000
SIGMA_MAX = 5.0  # of a logarithm: more makes texts of one word or of the most words
_KINDS = {
    "fixed": "fixed:N",
    "uniform": "uniform:A,B",
    "normal": "normal:MEAN,SD",
    "lognormal": "lognormal:MEDIAN,SIGMA",
}
_COMPOUND = 0.04  # share of words that are two in one, as names and inflected words are: they split into pieces
_COMMON = (
    "the of and to in is that it was for on are as with his they at be this have from or one had by word but not what "
    "all were we when your can said there use an each which she do how their if will up other about out many then them "
    "these so some her would make like him into time has look two more write go see number no way could people my than "
    "first water been call who oil its now find long down day did get come made may part over new sound take only "
    "little work know place year live me back give most very after thing our just name good sentence man think say "
    "great where help through much before line right too mean old any same tell boy follow came want show also around "
    "form three small set put end does another well large must big even such because turn here why ask went men read "
    "need land different home us move try kind hand picture again change off play spell air away animal house point "
    "page letter mother answer found study still learn should world"
)


@dataclass(frozen=True)
class Lengths:
    """A checked distribution of lengths in words."""

    text: str
    draw: Callable[[random.Random], float]

    def words(self, rng: random.Random) -> int:
        """Draws a number of words from 1 to ``WORDS_MAX``."""
        return max(1, min(WORDS_MAX, round(self.draw(rng))))


def parse(text: str) -> Lengths:
    """A specification from the command line. Raises ``UsageError``."""
    kind, _, rest = text.strip().partition(":") if ":" in text else ("fixed", "", text.strip())
    if kind not in _KINDS:
        raise UsageError(f"{text!r} is no distribution; there are: {', '.join(_KINDS.values())}")
    parts = rest.split(",")
    if len(parts) != _KINDS[kind].count(",") + 1:
        raise UsageError(f"{text!r} should read {_KINDS[kind]}")
    try:
        first = second = number(parts[0], "the shortest" if kind == "uniform" else "the length", 1, WORDS_MAX)
        if kind == "uniform":
            second = number(parts[1], "the longest", first, WORDS_MAX)
        elif kind != "fixed":
            second = number(parts[1], "the spread", 0, SIGMA_MAX if kind == "lognormal" else WORDS_MAX)
        if kind in ("fixed", "uniform") and (first % 1 or second % 1):
            raise UsageError("lengths are whole numbers of words")
    except UsageError as error:
        raise UsageError(f"{text!r}: {error}") from None
    draws: dict[str, Callable[[random.Random], float]] = {
        "fixed": lambda rng: first,
        "uniform": lambda rng: rng.uniform(first, second),
        "normal": lambda rng: rng.gauss(first, second),
        "lognormal": lambda rng: rng.lognormvariate(math.log(first), second),
    }
    return Lengths(text.strip(), draws[kind])


def texts(lengths: Lengths, count: int, rng: random.Random, vocabulary: Sequence[str] = ()) -> Iterator[str]:
    """``count`` texts with the word frequencies of natural language (Zipf), of ``vocabulary`` or common English words.

    No two are the same: one that has been there gets a number in place of its last word.
    """
    words = list(vocabulary) or _COMMON.split()
    weights = list(itertools.accumulate(1 / (rank + 3) for rank in range(len(words))))
    seen: set[str] = set()
    for _ in range(count):
        drawn = rng.choices(words, cum_weights=weights, k=lengths.words(rng))
        drawn = [word + rng.choice(words) if rng.random() < _COMPOUND else word for word in drawn]
        text = " ".join(drawn)
        if text in seen:
            text = " ".join([*drawn[:-1], str(len(seen))])
        seen.add(text)
        yield text
