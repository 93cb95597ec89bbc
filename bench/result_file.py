"""Lines of the result table, and the files that hold them: a summary of one line a row and a point, which is committed,
and the raw figures, which are not."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from loadgen.atomic_file import replace_file


@dataclass(frozen=True)
class Row:
    """A figure, what has to be reached (``accept``) and what is hoped for (``goal``), in the same unit.

    ``measured`` None: it could not be; ``note`` says why.

    ``at_most``: smaller is better. ``note``: what the figure is bound by, or compared with. ``interval``: in which the
    figure may lie; if what has to be reached lies in it, too, nothing is decided.
    """

    name: str
    measured: float | None
    unit: str
    accept: float | None = None
    goal: float | None = None
    at_most: bool = False
    note: str = ""
    interval: tuple[float, float] | None = None

    @property
    def accepted(self) -> bool | None:
        """None: nothing was asked for, or the interval leaves it open."""
        return None if self.accept is None else self._reaches(self.accept)

    @property
    def verdict(self) -> str:
        """``goal``, ``yes``, ``NO``, ``inconclusive``, or nothing where nothing was asked for."""
        if self.goal is not None and self._reaches(self.goal):
            return "goal"
        if self.accept is None:
            return ""
        return {None: "inconclusive", True: "yes", False: "NO"}[self.accepted]

    def as_json(self) -> dict[str, Any]:
        """The row in a result file's table."""
        row: dict[str, Any] = {"name": self.name, "measured": self.measured, "unit": self.unit}
        row |= {"accept": self.accept, "goal": self.goal, "at_most": self.at_most, "accepted": self.accepted}
        return row | {"bound_by": self.note} | ({"interval": list(self.interval)} if self.interval else {})

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Self:
        """Reads ``as_json`` back."""
        keys = ("name", "measured", "unit", "accept", "goal", "at_most", "bound_by", "interval")
        return cls(*(row.get(key) for key in keys))  # type: ignore[arg-type]

    def _reaches(self, mark: float) -> bool | None:
        """None: the ends of the interval differ in it."""
        if self.measured is None:
            return False
        ends = {end <= mark if self.at_most else end >= mark for end in self.interval or (self.measured,)}
        return ends.pop() if len(ends) == 1 else None


def number(value: float | None) -> str:
    """Three significant digits, thousands with a comma."""
    if value is None:
        return ""
    if abs(value) >= 1000:
        return f"{round(value, 2 - len(str(int(abs(value)))) + 1):,.0f}"
    return f"{value:.4g}" if 99 < value < 100 else f"{value:.3g}"  # of a share just below all, what is missing counts


def markdown(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    lines = ["| what | measured | accept | goal | reached | note |", "|---|--:|--:|--:|---|---|"]
    for r in rows:
        sign = "≤ " if r.at_most else "≥ "
        marks = [sign + number(mark) if mark is not None else "" for mark in (r.accept, r.goal)]
        measured = "none" if r.measured is None else f"{number(r.measured)} {r.unit}".strip()
        lines.append(f"| {r.name} | {measured} | {marks[0]} | {marks[1]} | {r.verdict} | {r.note} |")
    return "\n".join(lines)


ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench/results"
# Left out of a load generator's run: facts of the load and the generator, and percentiles other than p50 and p99.
_LEFT_OUT = {
    *("schema_version", "round", "load", "duration_s", "connections", "streams", "environment", "seeds", "cpu"),
    *("calls", "count", "status_with_warmup", "messages", "empty_answers", "waiting_max"),
    *("in_flight_max", "lateness_us", "rate_interval", "p99_interval_us", "by_second"),
    *("p75", "p90", "p95", "p999", "p9999", "max"),
}


def raw_path(path: Path) -> Path:
    """The file of the raw figures of a summary: in ``build/bench`` for a committed one, else in ``raw`` beside it."""
    return (ROOT / "build/bench" if path.parent == RESULTS else path.parent / "raw") / path.name


def write_summary(path: Path, document: Mapping[str, Any]) -> None:
    """Replaces the file. Each key, each entry of a list and each object in an object has one line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(f"{_compact(key)}: {_block(value)}" for key, value in document.items())
    replace_file(path, f"{{\n{lines}\n}}\n")


def write_raw(path: Path, document: Any) -> None:
    """Replaces the raw file of a summary."""
    raw_path(path).parent.mkdir(parents=True, exist_ok=True)
    replace_file(raw_path(path), _compact(document) + "\n")


def medians(points: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each name once, with the median of each of its figures over all of its runs."""
    runs: dict[str, list[Mapping[str, Any]]] = {}
    for point in points:
        runs.setdefault(point["name"], []).append(point)
    return [{"name": name, **(_median(points_of_name) or {})} for name, points_of_name in runs.items()]


def _median(value: Any) -> Any:
    """None for anything that has no figure in it."""
    if isinstance(value, bool | str) or value is None:
        return None
    if isinstance(value, Mapping):
        medians = {key: _median(each) for key, each in value.items() if key not in _LEFT_OUT}
        return {key: each for key, each in medians.items() if each is not None} or None
    if isinstance(value, Sequence):
        return _median_of_all(value)
    return value


def _median_of_all(values: Sequence[Any]) -> Any:
    if values and all(isinstance(value, Mapping) for value in values):
        names = [value.get("name") for value in values]
        if None not in names and len(set(names)) == len(names) > 1:
            return _median({value["name"]: value for value in values})
        keys = dict.fromkeys(key for value in values for key in value)
        return _median({key: _together([value[key] for value in values if key in value]) for key in keys})
    numbers = [value for value in map(_median, values) if isinstance(value, int | float)]
    return statistics.median(numbers) if numbers else None


def _together(values: Sequence[Any]) -> Sequence[Any]:
    """The elements of all where each is a list of its own."""
    lists = [value for value in values if isinstance(value, list)]
    return [each for value in lists for each in value] if len(lists) == len(values) else values


def _block(value: Any) -> str:
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(f" {_compact(each)}" for each in value) + "\n]"
    if isinstance(value, dict) and value and all(isinstance(each, dict) for each in value.values()):
        return "{\n" + ",\n".join(f" {_compact(key)}: {_compact(each)}" for key, each in value.items()) + "\n}"
    return _compact(value)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
