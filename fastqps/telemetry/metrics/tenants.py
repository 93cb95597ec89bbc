"""The counters of tenants: by name of those with the most tokens at a front door, and of all others together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from prometheus_client.core import CounterMetricFamily

from fastqps.telemetry.metrics.families import counter
from fastqps.telemetry.metrics.source import Source

NAMES_MAX = 128  # shown; each front door has rows for 32
OTHERS = "others"
_FAMILIES = (
    ("items", "Items accepted, by tenant; others are all without a row of their own."),
    ("tokens", "Tokens of these items, and tokens generated for them."),
    ("refused", "Items refused for load."),
)
_Counts = npt.NDArray[np.int64]  # items, tokens, refused


def _nothing() -> _Counts:
    return np.zeros(len(_FAMILIES), np.int64)


class TenantMeter:
    """Adds up the rows of all front doors by name. A row that changes hands begins anew, so what was read of it before
    stays with its old name."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._read: dict[tuple[int, int], tuple[int, _Counts]] = {}  # by door and row: its changes and counts
        self._named: dict[str, _Counts] = {}
        self._others = _nothing()

    def sample(self) -> None:
        """Reads all rows. Call it once a second, since rows change hands."""
        everything = _nothing()
        present = set()
        for door in range(self._source.segment.sizes.doors):
            rows, sums = self._source.segment.tenants(door)
            everything += np.array(sums)
            for row, changes, name, *counters in rows:
                if name == OTHERS:  # a client's name; there is one such series
                    continue
                counts = np.array(counters)
                then, before = self._read.get((door, row), (-1, counts))
                self._read[door, row] = changes, counts
                self._named[name] = self._named.get(name, _nothing()) + counts - (before if then == changes else 0)
                present.add(name)
        self._drop(present)
        named = sum(self._named.values(), start=_nothing())
        # Rows are read later than the sums: what came between is in the next sums.
        self._others = np.maximum(self._others, everything - named)

    def families(self) -> Iterator[CounterMetricFamily]:
        """The three counters as they are now."""
        self.sample()
        for i, (name, what) in enumerate(_FAMILIES):
            rows = [*self._named.items(), (OTHERS, self._others)]
            yield counter(f"tenant_{name}", what, [(tenant, int(counts[i])) for tenant, counts in rows], "tenant")

    def _drop(self, present: set[str]) -> None:
        """Too many names: those that have no row any more become others, those with the fewest tokens first."""
        spare = len(self._named) - NAMES_MAX
        if spare <= 0:
            return
        for name in sorted(self._named, key=lambda name: (name in present, self._named[name][1]))[:spare]:
            del self._named[name]
