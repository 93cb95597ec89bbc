"""Texts of random words, with lengths from a distribution.

fixed:N · uniform:A,B · normal:MEAN,SD · lognormal:MEDIAN,SIGMA     in words, at least 1
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadgen.errors import UsageError
from loadgen.units import number

WORDS_MAX = 100_000
_KINDS = {
    "fixed": "fixed:N",
    "uniform": "uniform:A,B",
    "normal": "normal:MEAN,SD",
    "lognormal": "lognormal:MEDIAN,SIGMA",
}
# Pronounceable, so that a word-piece tokenizer does about as much with them as with words of a language.
_ONSETS = "b c d f g h j k l m n p r s t v w br ch cl cr dr fl gr pl pr sh sl sp st str th tr"
_NUCLEI = "a e i o u ai ea ee ie oa oo ou"
_CODAS = "b ck d f g l ll m n nd ng nt p r rd rk rn s sh ss st t th x"
_COMMON = "the of and a to in is was for on that with as it at by from be are this"
_COMMON_SHARE = 0.35


@dataclass(frozen=True)
class Lengths:
    """A checked distribution of lengths in words."""

    kind: str
    numbers: tuple[float, ...]
    text: str

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """int64[count], each from 1 to ``WORDS_MAX``."""
        n = self.numbers
        found: NDArray[np.float64]
        match self.kind:
            case "fixed":
                found = np.full(count, n[0])
            case "uniform":
                found = rng.integers(int(n[0]), int(n[1]), count, endpoint=True).astype(np.float64)
            case "normal":
                found = rng.normal(n[0], n[1], count)
            case _:
                found = rng.lognormal(np.log(n[0]), n[1], count)
        lengths: NDArray[np.int64] = np.clip(np.rint(found), 1, WORDS_MAX).astype(np.int64)
        return lengths


def parse(text: str) -> Lengths:
    """A specification from the command line; a plain number is ``fixed``. Raises ``UsageError``."""
    kind, _, rest = text.strip().partition(":")
    if kind.isdecimal() and not rest:
        kind, rest = "fixed", kind
    if kind not in _KINDS:
        raise UsageError(f"{text!r} is no distribution; there are: {', '.join(_KINDS.values())}")
    words = rest.split(",")
    if len(words) != _KINDS[kind].count(",") + 1:
        raise UsageError(f"{text!r} should read {_KINDS[kind]}")
    try:
        spread = kind in ("normal", "lognormal")
        first = number(words[0], "the length" if kind != "uniform" else "the shortest", 1, WORDS_MAX)
        rest_of = [
            number(word, "the spread" if spread else "the longest", 0 if spread else first) for word in words[1:]
        ]
        if not spread and any(value % 1 or value > WORDS_MAX for value in (first, *rest_of)):
            raise UsageError(f"lengths are whole numbers of words, at most {WORDS_MAX:,}")
    except UsageError as error:
        raise UsageError(f"{text!r}: {error}") from None
    return Lengths(kind, (first, *rest_of), text.strip())


def texts(lengths: Lengths, count: int, rng: np.random.Generator) -> Iterator[str]:
    """``count`` texts, no two the same: a short one that has been there gets a number behind it."""
    vocabulary, frequent = _vocabulary(), _COMMON.split()
    seen: set[str] = set()
    for length in lengths.draw(count, rng):
        common = rng.random(length) < _COMMON_SHARE
        rare = rng.integers(0, len(vocabulary), length)
        pairs = zip(rare.tolist(), common.tolist(), strict=True)
        words = [frequent[i % len(frequent)] if plain else vocabulary[i] for i, plain in pairs]
        text = " ".join(words)
        if text in seen:
            text = f"{' '.join(words[:-1])} {len(seen)}".strip()
        seen.add(text)
        yield text


def _vocabulary() -> list[str]:
    return ["".join(parts) for parts in itertools.product(_ONSETS.split(), _NUCLEI.split(), _CODAS.split())]
