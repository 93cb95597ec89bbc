"""The keys of a checkpoint's JSON files: each is honoured, irrelevant or refused; code reads the first kind only.

A key that no rule names is unknown: transformers ignores such a key, and so does fastqps, but ``Keys.unknown`` names it
so that the operator hears of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastqps.errors import ModelError
from fastqps.models.files.reading import optional_object, read_object

_KEYS_NAMED_MAX, _KEY_CHARS_MAX = 8, 64  # of a warning


@dataclass(frozen=True)
class Refused:
    """A key that would change answers and is not supported. ``neutral``: the values that change nothing.

    A key that is absent or null is never refused.
    """

    neutral: tuple[Any, ...]
    why: str  # ends the sentence "config.json: KEY VALUE is not supported: …"


@dataclass(frozen=True)
class Rules:
    """The rules for the keys of one kind of file."""

    honoured: frozenset[str]
    irrelevant: frozenset[str]
    refused: Mapping[str, Refused]

    def __or__(self, other: Rules) -> Rules:
        """Both; where they differ over a key, ``other`` decides."""
        theirs = other.honoured | other.irrelevant | other.refused.keys()
        return Rules(
            (self.honoured - theirs) | other.honoured,
            (self.irrelevant - theirs) | other.irrelevant,
            {key: rule for key, rule in self.refused.items() if key not in theirs} | dict(other.refused),
        )


def rules(
    honoured: Iterable[str] = (), irrelevant: Iterable[str] = (), refused: Mapping[str, Refused] | None = None
) -> Rules:
    """``Rules``; ``ValueError`` where a key has two of them."""
    result = Rules(frozenset(honoured), frozenset(irrelevant), refused or {})
    twice = (result.honoured & result.irrelevant) | ((result.honoured | result.irrelevant) & result.refused.keys())
    if twice:
        raise ValueError(f"keys with two rules: {', '.join(sorted(twice))}")
    return result


class UnlistedKeyError(AssertionError):
    """Code reads a key that its rules do not call honoured: an error of fastqps, not of the checkpoint."""


class Keys(Mapping[str, Any]):
    """One JSON object of a checkpoint. ``unknown`` holds the keys that no rule names, in the order of the file.

    Raises ``ModelError``, naming file, key and value, where the object says something that is refused.
    """

    def __init__(self, file: str, values: Mapping[str, Any], known: Rules) -> None:
        self.file, self._values, self._known = file, values, known
        for key, rule in known.refused.items():
            value = values.get(key)
            if value is not None and not any(value == n and type(value) is type(n) for n in rule.neutral):
                raise ModelError(f"{file}: {key} {json.dumps(value)} is not supported: {rule.why}")
        listed = known.honoured | known.irrelevant | known.refused.keys()
        self.unknown = tuple(key for key in values if key not in listed)

    def warnings(self) -> tuple[str, ...]:
        """One sentence that names the unknown keys, or none."""
        if not self.unknown:
            return ()
        names = ", ".join(key[:_KEY_CHARS_MAX] for key in self.unknown[:_KEYS_NAMED_MAX])
        more = len(self.unknown) - _KEYS_NAMED_MAX
        others = f" and {more} more" if more > 0 else ""
        return (f"{self.file} has keys that fastqps does not know and that have no effect: {names}{others}.",)

    def check_known(self) -> None:
        """``ModelError`` where the file has unknown keys: for files whose reader would not start with one."""
        if self.unknown:
            raise ModelError(f"{self.file}: {self.unknown[0][:_KEY_CHARS_MAX]} is not supported: the key is unknown")

    def __getitem__(self, key: str) -> Any:
        """``KeyError`` where the file does not have it, ``UnlistedKeyError`` where code may not read it."""
        if key not in self._known.honoured:
            raise UnlistedKeyError(f"{self.file}: the key {key!r} is read, and no rule calls it honoured")
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return (key for key in self._values if key in self._known.honoured)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def read_keys(path: Path, known: Rules, *, optional: bool = False) -> Keys:
    """The object of a JSON file by its rules. ``optional``: it is empty where there is no such file."""
    return Keys(str(path), optional_object(path) if optional else read_object(path), known)
