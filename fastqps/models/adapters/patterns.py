"""Which modules an adapter's configuration names, as PEFT finds them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any

from fastqps.errors import ModelError

_CPU_SECONDS_MAX = 5
# Who wrote an adapter also wrote its expressions, and some take forever. Python's matching cannot be interrupted, so
# that a process does it whose CPU time the kernel limits.
_PROGRAM = """
import json, re, resource, sys, warnings
seconds, expressions, names = json.loads(sys.stdin.read())
resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
warnings.simplefilter("ignore")
try:
    compiled = [re.compile(text) for text in expressions]
    matches = ([(at, each.fullmatch(name)) for at, each in enumerate(compiled)] for name in names)
    found = [next(((at, match.groupdict()) for at, match in each if match), None) for each in matches]
    print(json.dumps(["", found]))
except (re.error, RecursionError, OverflowError) as error:
    print(json.dumps([str(error), []]))
"""
_ALL_LINEAR = "all-linear"  # every product of a model but its head


def first_matches(
    key: str, expressions: Sequence[Any], names: Collection[str]
) -> dict[str, tuple[int, dict[str, str]]]:
    """By name: the first of the ``expressions`` that matches all of it, and its named groups.

    ``ModelError`` for what is no regular expression of Python, and where they take more than some seconds.
    """
    if not all(isinstance(text, str) for text in expressions):
        raise ModelError(f"{key} {str(list(expressions))[:100]} has something else than names and regular expressions")
    asked = json.dumps([_CPU_SECONDS_MAX, expressions, list(names)])
    try:
        done = subprocess.run([sys.executable, "-I", "-S", "-c", _PROGRAM], input=asked, capture_output=True, text=True)
    except OSError as error:
        raise ModelError(f"{key}: cannot start {sys.executable} for its regular expressions: {error}") from error
    if done.returncode:
        raise ModelError(
            f"{key}: its regular expressions are not matched within {_CPU_SECONDS_MAX} s; name the modules in a list"
        )
    fault, matches = json.loads(done.stdout)
    if fault:
        raise ModelError(f"{key} {str(expressions)[:100]} is no regular expression: {fault}")
    return {name: (first[0], first[1]) for name, first in zip(names, matches, strict=True) if first}


class Targets:
    """Which of the ``modules`` are named by ``target_modules`` and its companions."""

    def __init__(self, get: Callable[[str], Any], modules: Collection[str]) -> None:
        target, self._numbers = get("target_modules"), _numbers(get("layers_to_transform"))
        self._target = modules if target == _ALL_LINEAR else _selected("target_modules", target, modules)
        self._whole = modules if isinstance(target, str) else target or ()
        self._excluded = _selected("exclude_modules", get("exclude_modules"), modules)
        self._layers = _layers(get("layers_pattern"), modules) if self._numbers else {}

    def __contains__(self, module: str) -> bool:
        if module in self._excluded or module not in self._target:
            return False
        return module in self._whole or not self._numbers or self._layers.get(module) in self._numbers


def named(name: str, end: str) -> bool:
    """Whether a module has this name, or one that ends with it behind a dot."""
    return name == end or name.endswith(f".{end}")


def _selected(key: str, value: Any, modules: Collection[str]) -> Collection[str]:
    if not value:
        return ()
    if isinstance(value, str):
        return first_matches(key, [value], modules)
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ModelError(f"{key} {str(value)[:100]!r} is neither a regular expression nor a list of names")
    return {module for module in modules if any(named(module, each) for each in value)}


def _layers(patterns: Any, modules: Collection[str]) -> dict[str, int]:
    """The number of the layer that a module is in: behind one of the patterns, else behind any name but the first."""
    listed = [patterns] if patterns and isinstance(patterns, str) else patterns or []
    if not isinstance(listed, list):
        raise ModelError(f"layers_pattern {str(patterns)[:100]!r} is no name, and no list of names")
    before = [rf"(?:^|.*?\.){each}" for each in listed] or [r".*?\.[^.]*"]
    matches = first_matches("layers_pattern", [rf"{each}\.(?P<idx>\d+)\..*" for each in before], modules)
    return {module: int(groups["idx"]) for module, (_, groups) in matches.items()}


def _numbers(layers: Any) -> frozenset[int]:
    numbers = [] if layers is None else [layers] if type(layers) is int else layers
    if not isinstance(numbers, list) or not all(type(each) is int for each in numbers):
        raise ModelError(f"layers_to_transform {str(layers)[:100]!r} is no number, and no list of numbers")
    return frozenset(numbers)
