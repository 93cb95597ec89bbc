"""One line of the result table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self


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
        found: dict[str, Any] = {"name": self.name, "measured": self.measured, "unit": self.unit}
        found |= {"accept": self.accept, "goal": self.goal, "at_most": self.at_most, "accepted": self.accepted}
        return found | {"bound_by": self.note} | ({"interval": list(self.interval)} if self.interval else {})

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Self:
        """Reads ``as_json`` back."""
        keys = ("name", "measured", "unit", "accept", "goal", "at_most", "bound_by", "interval")
        return cls(*(found.get(key) for key in keys))  # type: ignore[arg-type]

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
