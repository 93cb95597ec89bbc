"""Correct sentences, made from a small grammar, together with the ways in which a learner gets them wrong."""

from __future__ import annotations

from dataclasses import dataclass

from examples.grammar import words
from examples.grammar.phrases import MISMATCHED, Kind, Number, Part, Phrases, Subject

BE: dict[Number, str] = {"I": "am", "one": "is", "many": "are"}
WAS: dict[Number, str] = {"I": "was", "one": "was", "many": "were"}


@dataclass(frozen=True)
class Sentence:
    """One correct sentence."""

    parts: tuple[Part, ...]
    end: str  # "." or "?"

    def text(self, replaced: dict[int, str] | None = None) -> str:
        """The sentence, with the words of some parts replaced."""
        joined = " ".join((replaced or {}).get(i, part.right) for i, part in enumerate(self.parts))
        return joined[0].upper() + joined[1:] + self.end


class Writer(Phrases):
    """Writes sentences with the random numbers of ``rng``: equal seeds give equal sentences."""

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
                (*self._clause(self.subject(plain=True)), joint, *self._clause(self.subject(plain=True))), "."
            )
        time, parts = self._timed()
        if time and self._rng.random() < 0.25:
            return Sentence((Part(time + ","), *parts), ".")
        return Sentence((*parts, Part(time)) if time else parts, ".")

    # ---- clauses

    def _timed(self) -> tuple[str, tuple[Part, ...]]:
        """(a time, or "" for none; a clause of that time)."""
        subject = self.subject()
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
        verb = self.verb()
        right, other = (verb.third, verb.base) if subject.number == "one" else (verb.base, verb.third)
        wrong: list[tuple[Kind, str]] = [("agreement", other)]
        if timed:
            wrong.append(("form", verb.ing))
        often = () if timed or self._rng.random() < 0.7 else (Part(self._rng.choice(words.FREQUENCIES)),)
        return (*subject.parts, *often, Part(right, tuple(wrong)), *self.rest(verb))

    def _past(self, subject: Subject, timed: bool) -> tuple[Part, ...]:
        verb = self.verb()
        wrong: tuple[tuple[Kind, str], ...] = (
            (("tense", verb.base), ("tense", verb.third), ("tense", "will " + verb.base)) if timed else ()
        )
        return (*subject.parts, Part(verb.past, wrong), *self.rest(verb))

    def _future(self, subject: Subject, timed: bool) -> tuple[Part, ...]:
        verb = self.verb()
        wrong: tuple[tuple[Kind, str], ...] = (("tense", verb.past), ("form", "will " + verb.third))
        return (*subject.parts, Part("will " + verb.base, wrong), *self.rest(verb))

    def _going_to(self, subject: Subject, timed: bool) -> tuple[Part, ...]:
        verb = self.verb()
        forms: tuple[tuple[Kind, str], ...] = (("form", verb.past), ("form", verb.ing))
        return (*subject.parts, self._be(BE, subject), Part("going to"), Part(verb.base, forms), *self.rest(verb))

    def _doing(self, subject: Subject, timed: bool) -> tuple[Part, ...]:
        verb = self.verb(words.ACTIONS)
        now, then = f"{BE[subject.number]} {verb.ing}", f"{WAS[subject.number]} {verb.ing}"
        mismatch = f"{MISMATCHED[BE[subject.number]]} {verb.ing}"
        form = verb.ing if self._rng.random() < 0.5 else f"{BE[subject.number]} {verb.base}"
        return (
            *subject.parts,
            Part(now, (("agreement", mismatch), ("tense", then), ("form", form))),
            *self.rest(verb),
        )

    def _was_doing(self, subject: Subject, timed: bool) -> tuple[Part, ...]:
        verb = self.verb(words.ACTIONS)
        right = WAS[subject.number]
        be = Part(right, (("agreement", MISMATCHED[right]), ("tense", BE[subject.number])))
        return (*subject.parts, be, Part(verb.ing), *self.rest(verb))

    def _perfect(self, subject: Subject, timed: bool) -> tuple[Part, ...]:
        verb = self.verb()
        have = "has" if subject.number == "one" else "have"
        forms = {form for form in (verb.past, verb.base) if form != verb.participle}
        done = Part(verb.participle, tuple(("form", form) for form in sorted(forms)))
        already = (Part("already"),) if self._rng.random() < 0.3 else ()
        return (*subject.parts, Part(have, (("agreement", MISMATCHED[have]),)), *already, done, *self.rest(verb))

    def _modal(self, subject: Subject, timed: bool) -> tuple[Part, ...]:
        verb = self.verb()
        forms: tuple[tuple[Kind, str], ...] = (("form", verb.third), ("form", verb.past), ("form", verb.ing))
        return (*subject.parts, Part(self._rng.choice(words.MODALS)), Part(verb.base, forms), *self.rest(verb))

    def _does_not(self, subject: Subject, timed: bool) -> tuple[Part, ...]:
        do, other = ("does", "do") if subject.number == "one" else ("do", "does")
        return self._negative(subject, do, (("agreement", other),))

    def _did_not(self, subject: Subject, timed: bool) -> tuple[Part, ...]:
        return self._negative(subject, "did", (("tense", "does" if subject.number == "one" else "do"),))

    def _negative(self, subject: Subject, do: str, wrong: tuple[tuple[Kind, str], ...]) -> tuple[Part, ...]:
        verb = self.verb()
        no = self._rng.choice((" not", "n't"))
        form = verb.past if do == "did" else verb.third
        helper = Part(do + no, tuple((kind, other + no) for kind, other in wrong))
        return (*subject.parts, helper, Part(verb.base, (("form", form),)), *self.rest(verb))

    def _is(self, subject: Subject, timed: bool) -> tuple[Part, ...]:
        be = self._be(BE, subject)
        if timed:
            be = Part(be.right, (*be.wrong, ("tense", WAS[subject.number])))
        return (*subject.parts, be, *self.state(subject))

    def _was(self, subject: Subject, timed: bool) -> tuple[Part, ...]:
        right = WAS[subject.number]
        wrong: tuple[tuple[Kind, str], ...] = (("agreement", MISMATCHED[right]), ("tense", BE[subject.number]))
        return (*subject.parts, Part(right, wrong), *self.state(subject))

    def _will_be(self, subject: Subject, timed: bool) -> tuple[Part, ...]:
        wrong: tuple[tuple[Kind, str], ...] = (("tense", WAS[subject.number]), ("form", "will " + BE[subject.number]))
        return (*subject.parts, Part("will be", wrong), *self.state(subject))

    def _has(self, subject: Subject, timed: bool) -> tuple[Part, ...]:
        right = "has" if subject.number == "one" else "have"
        thing = self.phrase("goods", self._rng.random() < 0.7)
        return (*subject.parts, Part(right, (("agreement", MISMATCHED[right]),)), *thing)

    def _question(self) -> tuple[Part, ...]:
        subject, verb = self.subject(plain=True), self.verb()
        draw = self._rng.random()
        if draw < 0.35:
            do = "does" if subject.number == "one" else "do"
            asked = Part(verb.base, (("form", verb.third),))
            return (Part(do, (("agreement", MISMATCHED[do]),)), *subject.parts, asked, *self.rest(verb))
        if draw < 0.7:
            do = "does" if subject.number == "one" else "do"
            asked, time = Part(verb.base, (("form", verb.past),)), Part(self._rng.choice(words.PAST_TIMES))
            return (Part("did", (("tense", do),)), *subject.parts, asked, *self.rest(verb), time)
        be = self._be(BE, subject)
        return (be, *subject.parts, *self.state(subject))

    def _there(self) -> tuple[Part, ...]:
        one = self._rng.random() < 0.5
        right = self._rng.choice(("is", "was") if one else ("are", "were"))
        kind = self._rng.choice(("being", "goods"))
        some = self.counted(kind, one)
        return (Part("there"), Part(right, (("agreement", MISMATCHED[right]),)), *some, *self.somewhere())

    def _be(self, forms: dict[Number, str], subject: Subject) -> Part:
        right = forms[subject.number]
        return Part(right, (("agreement", MISMATCHED[right]),))
