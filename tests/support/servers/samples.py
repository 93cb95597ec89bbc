"""The samples of a page of metrics. Waits read pages again and again: Prometheus' own parser takes 20 ms for one."""

from __future__ import annotations

import re
from functools import lru_cache

_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


@lru_cache(65536)
def _names(series: str) -> tuple[str, str]:
    """(``name``, ``name{values}``) of a series, its values in the order of the labels' names; "" without labels."""
    name, _, labels = series.partition("{")
    values = [value for _, value in sorted(_LABEL.findall(labels))]
    plain = ",".join(_ESCAPED.sub(lambda found: "\n" if found[1] == "n" else found[1], value) for value in values)
    return name, f"{name}{{{plain}}}" if values else ""


def read_samples(page: str) -> dict[str, float]:
    """Samples by name, summed over labels, and by ``name{values}`` in the order of the labels' names."""
    found: dict[str, float] = {}
    for line in page.splitlines():
        if not line.startswith("#"):
            series, _, value = line.rpartition(" ")
            name, labelled = _names(series)
            found[name] = found.get(name, 0) + float(value)
            if labelled:
                found[labelled] = float(value)
    return found
