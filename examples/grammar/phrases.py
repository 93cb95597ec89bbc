"""The parts that clauses are made of: who, what, whom and where."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from examples.grammar import words
from examples.grammar.words import Noun, Verb

Number = Literal["I", "one", "many"]  # what a verb agrees with; "you" counts as many
Kind = Literal["agreement", "article", "tense", "form"]

PRONOUNS: dict[str, Number] = {"I": "I", "you": "many", "he": "one", "she": "one", "we": "many", "they": "many"}
MISMATCHED = {"this": "these", "these": "this", "that": "those", "those": "that", "do": "does", "does": "do"}
MISMATCHED |= {"have": "has", "has": "have", "is": "are", "are": "is", "am": "is", "was": "were", "were": "was"}


@dataclass(frozen=True)
class Part:
    """Words that are right or wrong together: ``wrong`` holds (kind of mistake, wrong words) for each way to fail."""

    right: str
    wrong: tuple[tuple[Kind, str], ...] = ()


@dataclass(frozen=True)
class Subject:
    """Who does it."""

    parts: tuple[Part, ...]
    number: Number


class Phrases:
    """Writes phrases with the random numbers of ``rng``."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def state(self, subject: Subject) -> tuple[Part, ...]:
        """What somebody can be."""
        draw = self._rng.random()
        if draw < 0.3:
            return self.somewhere()
        if draw < 0.55 and subject.number == "one":
            return self.counted("person", True)
        adjective = Part(self._rng.choice(words.ADJECTIVES["being"]))
        return (Part("very"), adjective) if self._rng.random() < 0.25 else (adjective,)

    def verb(self, among: tuple[Verb, ...] = words.VERBS) -> Verb:
        return self._rng.choice(among)

    def rest(self, verb: Verb) -> tuple[Part, ...]:
        """The object of a verb, or a place."""
        if not verb.objects:
            return self.somewhere() if self._rng.random() < 0.6 else ()
        if verb.objects == "way":
            return self.way()
        if verb.objects == "drink":
            some = self._rng.choice(("", "some", "the", *words.POSSESSIVES))
            return (*((Part(some),) if some else ()), Part(self._rng.choice(words.DRINKS)))
        if verb.objects in ("being", "person") and self._rng.random() < 0.2:
            return (Part(self._rng.choice(words.OBJECTS)),)
        thing = self.phrase(verb.objects, self._rng.random() < 0.65)
        return (*thing, *self.somewhere()) if self._rng.random() < 0.12 else thing

    def way(self) -> tuple[Part, ...]:
        """Where somebody goes."""
        if self._rng.random() < 0.4:
            return (Part(self._rng.choice(words.WAYS)),)
        return (Part("to"), *self.phrase("place", True))

    def somewhere(self) -> tuple[Part, ...]:
        if self._rng.random() < 0.7:
            return (Part(self._rng.choice(words.PLACES)), *self.phrase("place", True))
        return (Part(self._rng.choice(words.SPOTS)), Part("the"), Part(self._rng.choice(words.NOUNS["thing"]).one))

    def subject(self, plain: bool = False) -> Subject:
        draw = self._rng.random()
        if draw < 0.3:
            pronoun = self._rng.choice(tuple(PRONOUNS))
            return Subject((Part(pronoun),), PRONOUNS[pronoun])
        if draw < 0.42:
            return Subject((Part(self._rng.choice(words.NAMES)),), "one")
        if draw < 0.47:
            first, second = self._rng.sample(words.NAMES, 2)
            return Subject((Part(first), Part("and"), Part(second)), "many")
        one = self._rng.random() < 0.55
        parts = self.phrase("person" if self._rng.random() < 0.65 else "animal", one)
        if not plain and self._rng.random() < 0.15:
            parts = (*parts, Part("with"), *self.phrase("goods", self._rng.random() < 0.5))
        return Subject(parts, "one" if one else "many")

    def phrase(self, kind: str, one: bool) -> tuple[Part, ...]:
        """A noun with what stands before it."""
        draw = self._rng.random()
        if draw < 0.3:
            return self.counted(kind, one)
        noun = self._rng.choice(words.NOUNS[kind])
        right = self._rng.choice(words.POSSESSIVES) if draw < 0.45 else "the"
        before = Part(right)
        if draw > 0.88:
            right = self._rng.choice(("this", "that") if one else ("these", "those"))
            before = Part(right, (("agreement", MISMATCHED[right]),))
        return (before, *self.adjective(kind, 0.2), Part(noun.one if one else noun.many))

    def counted(self, kind: str, one: bool) -> tuple[Part, ...]:
        """``a`` or ``an`` or a number, and a noun."""
        noun: Noun = self._rng.choice(words.NOUNS[kind])
        adjective = self.adjective(kind, 0.4)
        if one:
            right = words.article(adjective[0].right if adjective else noun.one)
            return (Part(right, (("article", "a" if right == "an" else "an"),)), *adjective, Part(noun.one))
        if self._rng.random() < 0.3:
            return (Part("some"), *adjective, Part(noun.many))
        number = Part(self._rng.choice(words.NUMBERS))
        return (number, *adjective, Part(noun.many, (("agreement", noun.one),)))

    def adjective(self, kind: str, chance: float) -> tuple[Part, ...]:
        return (Part(self._rng.choice(words.ADJECTIVES[kind])),) if self._rng.random() < chance else ()
