"""Texts of ordinary words, always the same ones for a seed, with lengths from a distribution."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fastqps.errors import ConfigError
from fastqps.models import ModelError
from fastqps.models.files.json_files import read_object

WORDS_MIN = 500  # of a vocabulary that texts are made of
WORDS_MAX = 20_000  # the commonest of a vocabulary
LENGTH_MAX = 100_000
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
    """A distribution of lengths in words."""

    text: str
    draw: Callable[[random.Random], float]

    @classmethod
    def parse(cls, text: str) -> Lengths:
        """``30``, ``uniform:10,50``, ``normal:30,10`` (mean, deviation), ``lognormal:30,0.5`` (median, sigma)."""
        kind, _, rest = text.partition(":") if ":" in text else ("fixed", "", text)
        try:
            numbers = [float(part) for part in rest.split(",")]
        except ValueError:
            numbers = []
        wanted = 1 if kind == "fixed" else 2
        if kind not in ("fixed", "uniform", "normal", "lognormal") or len(numbers) != wanted:
            raise ConfigError(
                f"--lengths {text!r}: write N, uniform:A,B, normal:MEAN,DEVIATION or lognormal:MEDIAN,SIGMA"
            )
        first, second = numbers[0], numbers[-1]
        if not all(math.isfinite(n) and 0 <= n <= LENGTH_MAX for n in numbers) or first < 1:
            raise ConfigError(f"--lengths {text!r}: lengths are 1 to {LENGTH_MAX} words")
        if kind == "uniform" and second < first:
            raise ConfigError(f"--lengths {text!r}: the first bound is above the second")
        if kind == "lognormal" and second > 5:
            raise ConfigError(f"--lengths {text!r}: a sigma above 5 makes no texts")
        draws: dict[str, Callable[[random.Random], float]] = {
            "fixed": lambda rng: first,
            "uniform": lambda rng: rng.uniform(first, second),
            "normal": lambda rng: rng.gauss(first, second),
            "lognormal": lambda rng: rng.lognormvariate(math.log(first), second),
        }
        return cls(text, draws[kind])

    def words(self, rng: random.Random) -> int:
        """1 to LENGTH_MAX."""
        return max(1, min(LENGTH_MAX, round(self.draw(rng))))


def made_texts(count: int, lengths: Lengths, rng: random.Random, vocabulary: Sequence[str] = ()) -> list[str]:
    """``count`` texts with the word frequencies of natural language (Zipf); different ones, as far as words allow."""
    words = list(vocabulary) or _COMMON.split()
    weights = list(itertools.accumulate(1 / (rank + 3) for rank in range(len(words))))
    found: dict[str, None] = {}
    for _ in range(4 * count):
        if len(found) == count:
            break
        drawn = rng.choices(words, cum_weights=weights, k=lengths.words(rng))
        text = " ".join(word + rng.choice(words) if rng.random() < _COMPOUND else word for word in drawn)
        found[text] = None
    texts = list(found)
    return [texts[i % len(texts)] for i in range(count)]


def vocabulary_of(checkpoint: Path) -> list[str]:
    """Whole lower-case words of a checkpoint's tokenizer, in the vocabulary's order, which is by frequency.

    Empty where it has no tokenizer.json or no such words: byte-level vocabularies spell them differently.
    """
    try:
        model = read_object(checkpoint / "tokenizer.json")["model"]
        vocabulary: dict[str, int] = model["vocab"]
        ordered = sorted(vocabulary.items(), key=lambda item: item[1])
    except (ModelError, OSError, KeyError, TypeError, AttributeError):
        return []
    words = [word for word, _ in ordered if word.isascii() and word.isalpha() and len(word) > 1 and word.islower()]
    return words[:WORDS_MAX] if len(words) > WORDS_MIN else []
