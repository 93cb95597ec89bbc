"""Pairs of a sentence with mistakes and the right one; which of them are held out; how words are misspelled."""

from __future__ import annotations

import functools
import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass

from examples.grammar import words
from examples.grammar.phrases import PRONOUNS
from examples.grammar.sentences import BE, WAS, Sentence, Writer

# How often each kind of mistake is drawn, where a sentence has a place for it; "several" are two or three of any kind.
SHARES = {"none": 12, "agreement": 14, "article": 14, "tense": 14, "form": 10, "spelling": 20, "several": 16}
KINDS = tuple(SHARES)
_LETTERS_MIN = 4  # of a word that is misspelled
_SOUNDS = ("aeiou", "ck", "sz", "cs", "fv", "mn", "bp", "dt", "gj", "lr", "iy")  # letters mistaken for each other
_RUDE = {
    "ass",
    "cock",
    "cocks",
    "dick",
    "dicks",
    "homo",
    "hore",
    "rape",
    "shit",
    "shits",
}  # slips that nobody wants to read
HELD_OUT_PERCENT = 5


@dataclass(frozen=True)
class Pair:
    """What a learner wrote and what is right; equal when ``kind`` is ``none``."""

    kind: str
    wrong: str
    right: str


def held_out(right: str) -> bool:
    """Whether a correct sentence is kept for the evaluation: decided by its text alone, so no seed can mix the two."""
    return hashlib.sha256(right.encode()).digest()[0] * 100 < HELD_OUT_PERCENT * 256


def pairs(seed: int, *, held: bool) -> Iterator[Pair]:
    """An endless stream of pairs, the same for the same seed: only held-out sentences, or only others."""
    rng = random.Random(seed)
    writer = Writer(rng)
    while True:
        sentence = writer.sentence()
        if held_out(sentence.text()) == held:
            yield _spoil(sentence, rng)


def _spoil(sentence: Sentence, rng: random.Random) -> Pair:
    """The sentence with mistakes of a drawn kind, among those that it has a place for."""
    ways = {kind: _ways(sentence, kind, rng) for kind in KINDS[1:-1]}
    places = {place for found in ways.values() for place, _ in found}
    possible = {"none": True, "several": len(places) > 1, **{kind: bool(found) for kind, found in ways.items()}}
    shares = [share if possible[kind] else 0 for kind, share in SHARES.items()]
    kind = rng.choices(KINDS, shares)[0]
    replaced: dict[int, str] = {}
    if kind == "several":
        for place in rng.sample(sorted(places), min(len(places), rng.choice((2, 2, 3)))):
            replaced[place] = rng.choice([text for found in ways.values() for where, text in found if where == place])
    elif kind != "none":
        place, text = rng.choice(ways[kind])
        replaced[place] = text
    return Pair(kind, sentence.text(replaced), sentence.text())


def _ways(sentence: Sentence, kind: str, rng: random.Random) -> list[tuple[int, str]]:
    """(part, its wrong words) for every mistake of that kind; for spelling one for each word that can be misspelled."""
    if kind != "spelling":
        return [(i, text) for i, part in enumerate(sentence.parts) for found, text in part.wrong if found == kind]
    known = misspellings()
    return [
        (i, part.right.replace(word, rng.choice(known[word])))
        for i, part in enumerate(sentence.parts)
        for word in part.right.rstrip(",").split()
        if word in known
    ]


@functools.cache
def vocabulary() -> tuple[str, ...]:
    """Every word that a sentence can hold, as it is written in the middle of one, sorted."""
    found = {"there", "going", "to", "with", "very", "already", "and", "but", "because", "some", "will", "be", "not"}
    found |= {"a", "an", "the", "this", "that", "these", "those", "do", "does", "did", "has", "have"}
    found |= {do + "n't" for do in ("do", "does", "did")} | set(PRONOUNS) | set(BE.values()) | set(WAS.values())
    found |= {form for nouns in words.NOUNS.values() for noun in nouns for form in (noun.one, noun.many)}
    found |= {form for verb in words.VERBS for form in (verb.base, verb.third, verb.past, verb.participle, verb.ing)}
    found |= {adjective for group in words.ADJECTIVES.values() for adjective in group}
    found |= {*words.NAMES, *words.POSSESSIVES, *words.NUMBERS, *words.MODALS, *words.FREQUENCIES}
    found |= {*words.PLACES, *words.SPOTS, *words.DRINKS, *words.OBJECTS}
    times = (*words.PAST_TIMES, *words.FUTURE_TIMES, *words.PRESENT_TIMES, *words.NOW_TIMES)
    return tuple(sorted(found | {word for time in (*times, *words.WAYS) for word in time.split()}))


@functools.cache
def misspellings() -> dict[str, tuple[str, ...]]:
    """word -> its misspellings, sorted: none is a word, and none could be meant for two words."""
    known = set(vocabulary())
    meant: dict[str, set[str]] = {}
    for word in known:
        if len(word) >= _LETTERS_MIN and word.isalpha() and word.islower():
            for wrong in _one_slip(word) - known - _RUDE:
                meant.setdefault(wrong, set()).add(word)
    found: dict[str, list[str]] = {}
    for wrong, candidates in sorted(meant.items()):
        if len(candidates) == 1:
            found.setdefault(next(iter(candidates)), []).append(wrong)
    return {word: tuple(wrongs) for word, wrongs in found.items()}


def _one_slip(word: str) -> set[str]:
    """A letter left out, doubled, swapped with the next or mistaken for one that sounds alike; the first one stays."""
    found = set()
    for i in range(1, len(word)):
        before, letter, after = word[:i], word[i], word[i + 1 :]
        found |= {before + letter + letter + after}
        found |= {before + other + after for sounds in _SOUNDS if letter in sounds for other in sounds}
        if after:
            found |= {before + after, before + after[0] + letter + after[1:]}
    return found - {word}
