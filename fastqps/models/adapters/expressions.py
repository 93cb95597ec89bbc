"""Regular expressions of a file that cannot be trusted. A letter moves a set of states, so that none is tried twice."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from fastqps.models.card import ModelError

_CHARS_MAX = 2000
_STATES_MAX = 2000  # of an expression whose counted repetitions are written out
_STEPS_MAX = 10_000_000  # of all expressions of an adapter, with all names: some seconds
_ACCEPTED = 0


class Steps:
    """How much work the expressions of one adapter may still be. A step is one state at one letter."""

    def __init__(self) -> None:
        self._left = _STEPS_MAX

    def take(self, steps: int) -> None:
        """Counts them. ``ModelError`` where they are too many."""
        self._left -= steps
        if self._left < 0:
            raise ModelError(f"its regular expressions take more than {_STEPS_MAX} steps; name the modules in lists")


@dataclass(frozen=True)
class _State:
    """Where an expression is: it reads a letter (``reads``), or goes on without, at some places only (``at``)."""

    next: list[int]
    reads: Callable[[str], bool] | None = None
    at: Callable[[str, int], bool] | None = None
    steps: int = 1


class Expression:
    """One expression of Python's ``re``: without flags, looking around, references to groups, and atomic groups.

    Where all of a text has to match, a lazy repetition is a greedy one. ``ModelError`` for what is not supported.
    """

    def __init__(self, key: str, text: Any, steps: Steps) -> None:
        if not isinstance(text, str) or len(text) > _CHARS_MAX:
            raise ModelError(f"{key} {str(text)[:100]!r} is no regular expression of at most {_CHARS_MAX} characters")
        self._steps = steps
        self._states = [_State([])]
        try:
            with warnings.catch_warnings():  # of sets that a later Python may read otherwise
                warnings.simplefilter("ignore")
                parsed = parser.parse(text)
            if parsed.state.flags & ~re.UNICODE:
                raise _Unsupported("flags")
            self._first = self._row(parsed, _ACCEPTED)
        except _Unsupported as error:
            raise ModelError(f"{key} {text[:100]!r} is not supported: it has {error}") from None
        except (re.error, RecursionError, OverflowError) as error:
            raise ModelError(f"{key} {text[:100]!r} is no regular expression: {error}") from None

    def matches(self, text: str) -> bool:
        """Whether all of the text matches."""
        return self._accepts(text, {0})

    def ends(self, text: str) -> bool:
        """Whether the text, or what follows one of its dots, matches."""
        return self._accepts(text, {0, *(at + 1 for at, letter in enumerate(text) if letter == ".")})

    def _accepts(self, text: str, starts: set[int]) -> bool:
        states = self._states
        begun: Iterable[int] = ()
        for at, letter in enumerate(text):
            reached = self._reached(begun, text, at, at in starts)
            begun = {states[n].next[0] for n in reached if (reads := states[n].reads) and reads(letter)}
        return _ACCEPTED in self._reached(begun, text, len(text), len(text) in starts)

    def _reached(self, begun: Iterable[int], text: str, at: int, starts: bool) -> set[int]:
        """The states that are reached from those without reading a letter."""
        waiting = [*begun, self._first] if starts else list(begun)
        reached, steps = set(waiting), 0
        while waiting:
            state = self._states[waiting.pop()]
            steps += state.steps
            if state.reads is None and (state.at is None or state.at(text, at)):
                waiting += (new := [n for n in state.next if n not in reached])
                reached.update(new)
        self._steps.take(steps + 1)
        return reached

    def _row(self, items: Iterable[tuple[Any, Any]], then: int) -> int:
        """Adds states for items one after another, and then that state. Returns the first."""
        for kind, value in reversed(list(items)):
            then = self._item(kind, value, then)
        return then

    def _item(self, kind: Any, value: Any, then: int) -> int:
        match kind:
            case codes.LITERAL:
                return self._add(_State([then], chr(value).__eq__))
            case codes.NOT_LITERAL:
                return self._add(_State([then], chr(value).__ne__))
            case codes.ANY:
                return self._add(_State([then], "\n".__ne__))
            case codes.IN:
                return self._add(_State([then], _one_of(value), steps=len(value)))
            case codes.AT if value in _PLACES:
                return self._add(_State([then], at=_PLACES[value]))
            case codes.BRANCH:
                return self._add(_State([*{self._row(branch, then) for branch in value[1]}]))
            case codes.SUBPATTERN if not value[1] and not value[2]:
                return self._row(value[3], then)
            case codes.MAX_REPEAT | codes.MIN_REPEAT:
                least, most, items = value
                return self._repeat(least, most, items, then)
        name = "flags" if kind is codes.SUBPATTERN else str(value if kind is codes.AT else kind).lower()
        raise _Unsupported(f"{name}; letters, sets, groups, branches, repetitions, ^, $ and \\b are supported")

    def _repeat(self, least: int, most: int, items: Sequence[tuple[Any, Any]], then: int) -> int:
        if most == codes.MAXREPEAT:
            loop = self._add(_State([then]))
            self._states[loop].next.append(self._row(items, loop))
            then = loop
        else:
            end = then
            for _ in range(most - least):
                then = self._add(_State([end, self._row(items, then)]))
        for _ in range(least):
            if (first := self._row(items, then)) == then:  # nothing, however often
                break
            then = first
        return then

    def _add(self, state: _State) -> int:
        self._states.append(state)
        if len(self._states) > _STATES_MAX:
            raise _Unsupported(f"more than {_STATES_MAX} parts, repetitions written out")
        return len(self._states) - 1


class _Unsupported(Exception):
    """What an expression may not have."""


def _one_of(items: Sequence[tuple[Any, Any]]) -> Callable[[str], bool]:
    """Whether a letter is in a set."""
    wanted = items[0][0] is not codes.NEGATE
    tests = [_member(kind, value) for kind, value in items if kind is not codes.NEGATE]
    return lambda letter: any(test(letter) for test in tests) is wanted


def _member(kind: Any, value: Any) -> Callable[[str], bool]:
    match kind:
        case codes.LITERAL:
            return chr(value).__eq__
        case codes.RANGE:
            low, high = map(chr, value)
            return lambda letter: low <= letter <= high
    test, wanted = _CATEGORIES[value]
    return lambda letter: test(letter) is wanted


def _word(letter: str) -> bool:
    return letter.isalnum() or letter == "_"


def _at_end(text: str, at: int) -> bool:
    return at == len(text) or (at == len(text) - 1 and text[at] == "\n")


def _at_boundary(text: str, at: int) -> bool:
    return (at > 0 and _word(text[at - 1])) is not (at < len(text) and _word(text[at]))


_CATEGORIES = {
    codes.CATEGORY_DIGIT: (str.isdecimal, True),
    codes.CATEGORY_NOT_DIGIT: (str.isdecimal, False),
    codes.CATEGORY_SPACE: (str.isspace, True),
    codes.CATEGORY_NOT_SPACE: (str.isspace, False),
    codes.CATEGORY_WORD: (_word, True),
    codes.CATEGORY_NOT_WORD: (_word, False),
}
_PLACES: dict[Any, Callable[[str, int], bool]] = {
    codes.AT_BEGINNING: lambda _, at: at == 0,
    codes.AT_BEGINNING_STRING: lambda _, at: at == 0,
    codes.AT_END: _at_end,
    codes.AT_END_STRING: lambda text, at: at == len(text),
    codes.AT_BOUNDARY: _at_boundary,
}
