"""Matches names of modules as PEFT does, by expressions from a file that cannot be trusted."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from fastqps.models.card import ModelError

_CHARS_MAX = 2000
_REPEATS_MAX = 6  # of an expression: Python's matcher tries every way to divide a name among them
_OPTIONAL_MAX = 6
_NAME_CHARS_MAX = 300
_ALL_LINEAR = "all-linear"  # every product of a model but its head


class ModulePattern:
    """One regular expression. ``ModelError`` for one that is invalid, or that a name could keep busy for long."""

    def __init__(self, key: str, text: Any) -> None:
        if not isinstance(text, str) or len(text) > _CHARS_MAX:
            raise ModelError(f"{key} {str(text)[:100]!r} is no regular expression of at most {_CHARS_MAX} characters")
        bare = re.sub(r"\\.|\[[^\]]*\]", "x", text)  # without what only looks like an operator
        repeats = len(re.findall(r"[*+]|\{", bare))
        optional = len(re.findall(r"(?<![*+}(])\?", bare))
        if re.search(r"\)[*+{]", bare) or re.search(r"\\[1-9]|\(\?P=", text):
            raise ModelError(f"{key} {text[:100]!r} repeats a group, which could take for ever; write it without")
        if repeats > _REPEATS_MAX or optional > _OPTIONAL_MAX:
            raise ModelError(f"{key} {text[:100]!r} repeats more than {_REPEATS_MAX} parts, which could take for ever")
        try:
            self._expression = re.compile(text)
        except (re.error, RecursionError, OverflowError) as error:
            raise ModelError(f"{key} {text[:100]!r} is no regular expression: {error}") from None

    def matches(self, name: str, start: int = 0) -> bool:
        """Whether all of the name from ``start`` on matches."""
        return len(name) <= _NAME_CHARS_MAX and bool(self._expression.fullmatch(name, start))

    def ends(self, name: str) -> bool:
        """Whether the name, or what follows one of its dots, matches."""
        starts = [0, *(at + 1 for at, letter in enumerate(name) if letter == ".")]
        return any(self.matches(name, start) for start in starts)


class Targets:
    """The modules that ``target_modules`` and its companions name."""

    def __init__(self, target: Any, exclude: Any, layers: Any, layers_pattern: Any) -> None:
        self._target, self._exclude = _selection("target_modules", target), _selection("exclude_modules", exclude)
        self._layers = _numbers(layers)
        patterns = [layers_pattern] if isinstance(layers_pattern, str) else layers_pattern or []
        if not isinstance(patterns, list):
            raise ModelError(f"layers_pattern {str(layers_pattern)[:100]!r} is no name, and no list of names")
        self._in_layers = [ModulePattern("layers_pattern", text) for text in patterns]

    def __contains__(self, name: str) -> bool:
        if self._exclude is not None and _selects(self._exclude, name):
            return False
        if self._target is None or not _selects(self._target, name):
            return False
        whole = isinstance(self._target, ModulePattern) or name in self._target
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


def _selection(key: str, value: Any) -> ModulePattern | frozenset[str] | None:
    if value is None:
        return None
    if isinstance(value, str):
        return ModulePattern(key, ".*" if value == _ALL_LINEAR else value)
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ModelError(f"{key} {str(value)[:100]!r} is neither a regular expression nor a list of names")
    return frozenset(value)


def _selects(selection: ModulePattern | Iterable[str], name: str) -> bool:
    if isinstance(selection, ModulePattern):
        return selection.matches(name)
    return any(named(name, each) for each in selection)


def named(name: str, end: str) -> bool:
    """Whether a module has this name, or one that ends with it behind a dot."""
    return name == end or name.endswith(f".{end}")


def _numbers(layers: Any) -> frozenset[int]:
    found = [layers] if type(layers) is int else layers or []
    if not isinstance(found, list) or not all(type(each) is int for each in found):
        raise ModelError(f"layers_to_transform {str(layers)[:100]!r} is no number, and no list of numbers")
    return frozenset(found)
