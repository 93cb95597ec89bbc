"""Correct sentences, made from a small grammar, together with the ways in which a learner gets them wrong."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from examples.grammar import words
from examples.grammar.words import Noun, Verb

Number = Literal["I", "one", "many"]  # what a verb agrees with; "you" counts as many
Kind = Literal["agreement", "article", "tense", "form"]

BE: dict[Number, str] = {"I": "am", "one": "is", "many": "are"}
WAS: dict[Number, str] = {"I": "was", "one": "was", "many": "were"}
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


@dataclass(frozen=True)
class Sentence:
    """One correct sentence."""

    parts: tuple[Part, ...]
    end: str  # "." or "?"

    def text(self, replaced: dict[int, str] | None = None) -> str:
        """The sentence, with the words of some parts replaced."""
        joined = " ".join((replaced or {}).get(i, part.right) for i, part in enumerate(self.parts))
        return joined[0].upper() + joined[1:] + self.end


class Writer:
    """Writes sentences with the random numbers of ``rng``: equal seeds give equal sentences."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def sentence(self) -> Sentence:
        """One correct sentence of 3 to about 18 words."""
        draw = self._rng.random()
        if draw < 0.10:
            return Sentence(self._question(), "?")
        if draw < 0.17:
            return Sentence(self._there(), ".")
        if draw < 0.27:
            joint = Part(self._rng.choice(("and", "but", "because")))
            return Sentence(
                (*self._clause(self._subject(plain=True)), joint, *self._clause(self._subject(plain=True))), "."
            )
        time, parts = self._timed()
        if time and self._rng.random() < 0.25:
            return Sentence((Part(time + ","), *parts), ".")
        return Sentence((*parts, Part(time)) if time else parts, ".")

    # ---- clauses

    def _timed(self) -> tuple[str, tuple[Part, ...]]:
        """(a time, or "" for none; a clause of that time)."""
        subject = self._subject()
        draw = self._rng.random()
        if draw < 0.30:
            return "", self._clause(subject)
        times, ways = (
            (words.PAST_TIMES, (self._past, self._past, self._past, self._was_doing, self._did_not, self._was)),
            (words.FUTURE_TIMES, (self._future, self._future, self._going_to, self._will_be)),
            (words.PRESENT_TIMES, (self._present, self._present, self._does_not)),
            (words.NOW_TIMES, (self._doing, self._doing, self._is)),
        )[0 if draw < 0.55 else 1 if draw < 0.75 else 2 if draw < 0.88 else 3]
        return self._rng.choice(times), self._rng.choice(ways)(subject, True)

    def _clause(self, subject: Subject) -> tuple[Part, ...]:
        """A clause without a time."""
        ways = (
            self._present,
            self._present,
            self._past,
            self._perfect,
            self._modal,
            self._does_not,
            self._is,
            self._has,
        )
        return self._rng.choice(ways)(subject, False)

    def _present(self, subject: Subject, timed: bool) -> tuple[Part, ...]:
        verb = self._verb()
        right, other = (verb.third, verb.base) if subject.number == "one" else (verb.base, verb.third)
        wrong: list[tuple[Kind, str]] = [("agreement", other)]
        if timed:
            wrong.append(("form", verb.ing))
        often = () if timed or self._rng.random() < 0.7 else (Part(self._rng.choice(words.FREQUENCIES)),)
        return (*subject.parts, *often, Part(right, tuple(wrong)), *self._rest(verb))

    def _past(self, subject: Subject, timed: bool) -> tuple[Part, ...]:
        verb = self._verb()
        wrong: tuple[tuple[Kind, str], ...] = (
            (("tense", verb.base), ("tense", verb.third), ("tense", "will " + verb.base)) if timed else ()
        )
        return (*subject.parts, Part(verb.past, wrong), *self._rest(verb))

    def _future(self, subject: Subject, timed: bool) -> tuple[Part, ...]:
        verb = self._verb()
        wrong: tuple[tuple[Kind, str], ...] = (("tense", verb.past), ("form", "will " + verb.third))
        return (*subject.parts, Part("will " + verb.base, wrong), *self._rest(verb))

    def _going_to(self, subject: Subject, timed: bool) -> tuple[Part, ...]:
        verb = self._verb()
        forms: tuple[tuple[Kind, str], ...] = (("form", verb.past), ("form", verb.ing))
        return (*subject.parts, self._be(BE, subject), Part("going to"), Part(verb.base, forms), *self._rest(verb))

    def _doing(self, subject: Subject, timed: bool) -> tuple[Part, ...]:
        verb = self._verb(words.ACTIONS)
        now, then = f"{BE[subject.number]} {verb.ing}", f"{WAS[subject.number]} {verb.ing}"
        mismatch = f"{MISMATCHED[BE[subject.number]]} {verb.ing}"
        form = verb.ing if self._rng.random() < 0.5 else f"{BE[subject.number]} {verb.base}"
        return (
            *subject.parts,
            Part(now, (("agreement", mismatch), ("tense", then), ("form", form))),
            *self._rest(verb),
        )

    def _was_doing(self, subject: Subject, timed: bool) -> tuple[Part, ...]:
        verb = self._verb(words.ACTIONS)
        right = WAS[subject.number]
        be = Part(right, (("agreement", MISMATCHED[right]), ("tense", BE[subject.number])))
        return (*subject.parts, be, Part(verb.ing), *self._rest(verb))

    def _perfect(self, subject: Subject, timed: bool) -> tuple[Part, ...]:
        verb = self._verb()
        have = "has" if subject.number == "one" else "have"
        forms = {form for form in (verb.past, verb.base) if form != verb.participle}
        done = Part(verb.participle, tuple(("form", form) for form in sorted(forms)))
        already = (Part("already"),) if self._rng.random() < 0.3 else ()
        return (*subject.parts, Part(have, (("agreement", MISMATCHED[have]),)), *already, done, *self._rest(verb))

    def _modal(self, subject: Subject, timed: bool) -> tuple[Part, ...]:
        verb = self._verb()
        forms: tuple[tuple[Kind, str], ...] = (("form", verb.third), ("form", verb.past), ("form", verb.ing))
        return (*subject.parts, Part(self._rng.choice(words.MODALS)), Part(verb.base, forms), *self._rest(verb))

    def _does_not(self, subject: Subject, timed: bool) -> tuple[Part, ...]:
        do, other = ("does", "do") if subject.number == "one" else ("do", "does")
        return self._negative(subject, do, (("agreement", other),))

    def _did_not(self, subject: Subject, timed: bool) -> tuple[Part, ...]:
        return self._negative(subject, "did", (("tense", "does" if subject.number == "one" else "do"),))

    def _negative(self, subject: Subject, do: str, wrong: tuple[tuple[Kind, str], ...]) -> tuple[Part, ...]:
        verb = self._verb()
        no = self._rng.choice((" not", "n't"))
        form = verb.past if do == "did" else verb.third
        helper = Part(do + no, tuple((kind, other + no) for kind, other in wrong))
        return (*subject.parts, helper, Part(verb.base, (("form", form),)), *self._rest(verb))

    def _is(self, subject: Subject, timed: bool) -> tuple[Part, ...]:
        be = self._be(BE, subject)
        if timed:
            be = Part(be.right, (*be.wrong, ("tense", WAS[subject.number])))
        return (*subject.parts, be, *self._state(subject))

    def _was(self, subject: Subject, timed: bool) -> tuple[Part, ...]:
        right = WAS[subject.number]
        wrong: tuple[tuple[Kind, str], ...] = (("agreement", MISMATCHED[right]), ("tense", BE[subject.number]))
        return (*subject.parts, Part(right, wrong), *self._state(subject))

    def _will_be(self, subject: Subject, timed: bool) -> tuple[Part, ...]:
        wrong: tuple[tuple[Kind, str], ...] = (("tense", WAS[subject.number]), ("form", "will " + BE[subject.number]))
        return (*subject.parts, Part("will be", wrong), *self._state(subject))

    def _has(self, subject: Subject, timed: bool) -> tuple[Part, ...]:
        right = "has" if subject.number == "one" else "have"
        thing = self._phrase("goods", self._rng.random() < 0.7)
        return (*subject.parts, Part(right, (("agreement", MISMATCHED[right]),)), *thing)

    def _question(self) -> tuple[Part, ...]:
        subject, verb = self._subject(plain=True), self._verb()
        draw = self._rng.random()
        if draw < 0.35:
            do = "does" if subject.number == "one" else "do"
            asked = Part(verb.base, (("form", verb.third),))
            return (Part(do, (("agreement", MISMATCHED[do]),)), *subject.parts, asked, *self._rest(verb))
        if draw < 0.7:
            do = "does" if subject.number == "one" else "do"
            asked, time = Part(verb.base, (("form", verb.past),)), Part(self._rng.choice(words.PAST_TIMES))
            return (Part("did", (("tense", do),)), *subject.parts, asked, *self._rest(verb), time)
        be = self._be(BE, subject)
        return (be, *subject.parts, *self._state(subject))

    def _there(self) -> tuple[Part, ...]:
        one = self._rng.random() < 0.5
        right = self._rng.choice(("is", "was") if one else ("are", "were"))
        kind = self._rng.choice(("being", "goods"))
        some = self._counted(kind, one)
        return (Part("there"), Part(right, (("agreement", MISMATCHED[right]),)), *some, *self._somewhere())

    # ---- the parts of clauses

    def _be(self, forms: dict[Number, str], subject: Subject) -> Part:
        right = forms[subject.number]
        return Part(right, (("agreement", MISMATCHED[right]),))

    def _state(self, subject: Subject) -> tuple[Part, ...]:
        """What somebody can be."""
        draw = self._rng.random()
        if draw < 0.3:
            return self._somewhere()
        if draw < 0.55 and subject.number == "one":
            return self._counted("person", True)
        adjective = Part(self._rng.choice(words.ADJECTIVES["being"]))
        return (Part("very"), adjective) if self._rng.random() < 0.25 else (adjective,)

    def _verb(self, among: tuple[Verb, ...] = words.VERBS) -> Verb:
        return self._rng.choice(among)

    def _rest(self, verb: Verb) -> tuple[Part, ...]:
        """The object of a verb, or a place."""
        if not verb.objects:
            return self._somewhere() if self._rng.random() < 0.6 else ()
        if verb.objects == "way":
            return self._way()
        if verb.objects == "drink":
            some = self._rng.choice(("", "some", "the", *words.POSSESSIVES))
            return (*((Part(some),) if some else ()), Part(self._rng.choice(words.DRINKS)))
        if verb.objects in ("being", "person") and self._rng.random() < 0.2:
            return (Part(self._rng.choice(words.OBJECTS)),)
        thing = self._phrase(verb.objects, self._rng.random() < 0.65)
        return (*thing, *self._somewhere()) if self._rng.random() < 0.12 else thing

    def _way(self) -> tuple[Part, ...]:
        """Where somebody goes."""
        if self._rng.random() < 0.4:
            return (Part(self._rng.choice(words.WAYS)),)
        return (Part("to"), *self._phrase("place", True))

    def _somewhere(self) -> tuple[Part, ...]:
        if self._rng.random() < 0.7:
            return (Part(self._rng.choice(words.PLACES)), *self._phrase("place", True))
        return (Part(self._rng.choice(words.SPOTS)), Part("the"), Part(self._rng.choice(words.NOUNS["thing"]).one))

    def _subject(self, plain: bool = False) -> Subject:
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
        parts = self._phrase("person" if self._rng.random() < 0.65 else "animal", one)
        if not plain and self._rng.random() < 0.15:
            parts = (*parts, Part("with"), *self._phrase("goods", self._rng.random() < 0.5))
        return Subject(parts, "one" if one else "many")

    def _phrase(self, kind: str, one: bool) -> tuple[Part, ...]:
        """A noun with what stands before it."""
        draw = self._rng.random()
        if draw < 0.3:
            return self._counted(kind, one)
        noun = self._rng.choice(words.NOUNS[kind])
        right = self._rng.choice(words.POSSESSIVES) if draw < 0.45 else "the"
        before = Part(right)
        if draw > 0.88:
            right = self._rng.choice(("this", "that") if one else ("these", "those"))
            before = Part(right, (("agreement", MISMATCHED[right]),))
        return (before, *self._adjective(kind, 0.2), Part(noun.one if one else noun.many))

    def _counted(self, kind: str, one: bool) -> tuple[Part, ...]:
        """``a`` or ``an`` or a number, and a noun."""
        noun: Noun = self._rng.choice(words.NOUNS[kind])
        adjective = self._adjective(kind, 0.4)
        if one:
            right = words.article(adjective[0].right if adjective else noun.one)
            return (Part(right, (("article", "a" if right == "an" else "an"),)), *adjective, Part(noun.one))
        if self._rng.random() < 0.3:
            return (Part("some"), *adjective, Part(noun.many))
        number = Part(self._rng.choice(words.NUMBERS))
        return (number, *adjective, Part(noun.many, (("agreement", noun.one),)))

    def _adjective(self, kind: str, chance: float) -> tuple[Part, ...]:
        return (Part(self._rng.choice(words.ADJECTIVES[kind])),) if self._rng.random() < chance else ()
