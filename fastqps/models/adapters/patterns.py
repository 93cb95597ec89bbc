"""Which modules an adapter's configuration names, as PEFT finds them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastqps.models.adapters.expressions import Expression, Steps
from fastqps.models.card import ModelError

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
