"""A cache of compiled structures."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")

CACHED_MAX = 32
CACHED_BYTES_MAX = 128 << 20


class StructureCache(Generic[T]):
    """Values by structure. The least recently used go first.

    ``size``: the bytes of a value, which may be known later.
    """

    def __init__(self, size: Callable[[T], int] = lambda _: 0) -> None:
        self._values: OrderedDict[Hashable, T] = OrderedDict()
        self._size = size

    def get(self, structure: Hashable) -> T | None:
        """The value, which is the most recently used one now."""
        if structure in self._values:
            self._values.move_to_end(structure)
        return self._values.get(structure)

    def put(self, structure: Hashable, value: T) -> None:
        """Adds a value, and drops the least recently used beyond the limits."""
        self._values[structure] = value
        self.trim()

    def trim(self) -> None:
        """Drops the least recently used values beyond the limits, when the size of one has become known."""
        while len(self._values) > CACHED_MAX or sum(map(self._size, self._values.values())) > CACHED_BYTES_MAX:
            self._values.popitem(last=False)

    def drop_where(self, matches: Callable[[T], bool]) -> None:
        """Drops the values that match."""
        for structure in [each for each, value in self._values.items() if matches(value)]:
            del self._values[structure]
