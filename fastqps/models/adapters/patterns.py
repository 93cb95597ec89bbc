"""Which modules an adapter's configuration names, as PEFT finds them."""

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
_STEPS_TO_READ = 20  # a letter of an expression
_LETTERS = (codes.LITERAL, codes.NOT_LITERAL, codes.ANY, codes.IN, codes.AT)  # parts that read at most one letter

Move = Callable[[str, set[int]], set[int]]  # the ends of a part's matches in a text that begin at one of the places


class Steps:
    """How much work the expressions of one adapter may still be. A step is one part at one place of a text.

    Each move takes one, and one for each place that it visits or hands on unread: no expression is work without steps.
    """

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
        steps.take(_STEPS_TO_READ * len(text))
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
            self._steps.take(1 if moves else 1 + len(places))
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
        looks = len(value) if kind is codes.IN else 1  # rare letters of a set are compared one by one

        def letter(text: str, places: set[int]) -> set[int]:
            self._steps.take(1 + looks * len(places))
            return {found.end() for at in places if (found := match(text, at))}

        return letter

    def _repeated(self, part: Move, least: int, most: int) -> Move:
        def repeated(text: str, places: set[int]) -> set[int]:
            self._steps.take(1 + len(places))
            ends = set() if least else set(places)
            count = 0
            while places and count < most:
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


_ALL_LINEAR = "all-linear"  # every product of a model but its head


class Targets:
    """The modules that ``target_modules`` and its companions name."""

    def __init__(self, target: Any, exclude: Any, layers: Any, layers_pattern: Any, steps: Steps) -> None:
        self._target = _selection("target_modules", target, steps)
        self._exclude = _selection("exclude_modules", exclude, steps)
        self._layers = _numbers(layers)
        patterns = [layers_pattern] if isinstance(layers_pattern, str) else layers_pattern or []
        if not isinstance(patterns, list):
            raise ModelError(f"layers_pattern {str(layers_pattern)[:100]!r} is no name, and no list of names")
        self._in_layers = [Expression("layers_pattern", text, steps) for text in patterns]

    def __contains__(self, name: str) -> bool:
        if self._exclude is not None and _selects(self._exclude, name):
            return False
        if self._target is None or not _selects(self._target, name):
            return False
        whole = isinstance(self._target, Expression) or name in self._target
        return whole or not self._layers or self._layer(name) in self._layers

    def _layer(self, name: str) -> int | None:
        """The number of the layer that a module is in: behind one of the patterns, else behind any name but the
        first."""
        parts = name.split(".")
        for at in range(1 if self._in_layers else 2, len(parts) - 1):
            number = parts[at].isascii() and parts[at].isdecimal()
            if number and (not self._in_layers or any(each.ends(".".join(parts[:at])) for each in self._in_layers)):
                return int(parts[at])
        return None


def _selection(key: str, value: Any, steps: Steps) -> Expression | frozenset[str] | None:
    if value is None:
        return None
    if isinstance(value, str):
        return Expression(key, ".*" if value == _ALL_LINEAR else value, steps)
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ModelError(f"{key} {str(value)[:100]!r} is neither a regular expression nor a list of names")
    return frozenset(value)


def _selects(selection: Expression | Iterable[str], name: str) -> bool:
    if isinstance(selection, Expression):
        return selection.matches(name)
    return any(named(name, each) for each in selection)


def named(name: str, end: str) -> bool:
    """Whether a module has this name, or one that ends with it behind a dot."""
    return name == end or name.endswith(f".{end}")


def _numbers(layers: Any) -> frozenset[int]:
    found = [] if layers is None else [layers] if type(layers) is int else layers
    if not isinstance(found, list) or not all(type(each) is int for each in found):
        raise ModelError(f"layers_to_transform {str(layers)[:100]!r} is no number, and no list of numbers")
    return frozenset(found)
