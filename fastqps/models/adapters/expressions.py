"""Regular expressions of a file that cannot be trusted. A part moves a set of places, so that none is tried twice."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable
from re import _compiler as compiler  # type: ignore[attr-defined]
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from fastqps.models.card import ModelError

_CHARS_MAX = 2000
_STEPS_MAX = 10_000_000  # of all expressions of an adapter, with all names: some seconds
_LETTERS = (codes.LITERAL, codes.NOT_LITERAL, codes.ANY, codes.IN, codes.AT)  # parts that read at most one letter

Move = Callable[[str, set[int]], set[int]]  # the ends of a part's matches in a text that begin at one of the places


class Steps:
    """How much work the expressions of one adapter may still be. A step is one part at one place of a text."""

    def __init__(self) -> None:
        self._left = _STEPS_MAX

    def take(self, steps: int) -> None:
        """Counts them. ``ModelError`` where they are too many."""
        self._left -= steps
        if self._left < 0:
            raise ModelError(f"its regular expressions take more than {_STEPS_MAX} steps; name the modules in lists")


class Expression:
    """One expression of Python's ``re``: without flags, looking around, references to groups, and atomic groups.

    Where all of a text has to match, a lazy repetition is a greedy one. ``ModelError`` for what is not supported.
    """

    def __init__(self, key: str, text: Any, steps: Steps) -> None:
        if not isinstance(text, str) or len(text) > _CHARS_MAX:
            raise ModelError(f"{key} {str(text)[:100]!r} is no regular expression of at most {_CHARS_MAX} characters")
        self._steps = steps
        try:
            with warnings.catch_warnings():  # of sets that a later Python may read otherwise
                warnings.simplefilter("ignore")
                parsed = parser.parse(text)
            if parsed.state.flags & ~re.UNICODE:
                raise _Unsupported("flags")
            self._move = self._row(parsed)
            self.matches("")  # nests no deeper than Python can follow
        except _Unsupported as error:
            raise ModelError(f"{key} {text[:100]!r} is not supported: it has {error}") from None
        except (re.error, RecursionError, OverflowError) as error:
            raise ModelError(f"{key} {text[:100]!r} is no regular expression: {error}") from None

    def matches(self, text: str) -> bool:
        """Whether all of the text matches."""
        return len(text) in self._move(text, {0})

    def ends(self, text: str) -> bool:
        """Whether the text, or what follows one of its dots, matches."""
        return len(text) in self._move(text, {0, *(at + 1 for at, letter in enumerate(text) if letter == ".")})

    def _row(self, parts: Iterable[tuple[Any, Any]]) -> Move:
        """Parts one after another."""
        moves = [self._part(kind, value) for kind, value in parts]

        def row(text: str, places: set[int]) -> set[int]:
            for move in moves:
                places = move(text, places)
            return places

        return row

    def _part(self, kind: Any, value: Any) -> Move:
        if kind in _LETTERS:
            return self._letter(kind, value)
        if kind is codes.BRANCH:
            branches = [self._row(branch) for branch in value[1]]
            return lambda text, places: set().union(*[branch(text, places) for branch in branches])
        if kind is codes.SUBPATTERN and not value[1] and not value[2]:
            return self._row(value[3])
        if kind in (codes.MAX_REPEAT, codes.MIN_REPEAT):
            least, most, parts = value
            return self._repeated(self._row(parts), least, most)
        name = "flags" if kind is codes.SUBPATTERN else str(kind).lower()
        raise _Unsupported(f"{name}; letters, sets, groups, branches, repetitions, ^, $, \\b and \\B are supported")

    def _letter(self, kind: Any, value: Any) -> Move:
        match = compiler.compile(parser.SubPattern(parser.State(), [(kind, value)])).match

        def letter(text: str, places: set[int]) -> set[int]:
            self._steps.take(1 + len(places))
            return {found.end() for at in places if (found := match(text, at))}

        return letter

    def _repeated(self, part: Move, least: int, most: int) -> Move:
        def repeated(text: str, places: set[int]) -> set[int]:
            ends = set() if least else set(places)
            count = 0
            while places and count < most:
                self._steps.take(1)
                begun, places, count = places, part(text, places), count + 1
                if places == begun:
                    return ends | places  # nothing, however often
                if count >= least:
                    places -= ends
                    ends |= places
            return ends

        return repeated


class _Unsupported(Exception):
    """What an expression may not have."""
