"""report.html: one file, without scripts, fonts or anything else from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader

from fastqps.bench.report import wording
from fastqps.bench.report.columns import Column, columns_of
from fastqps.bench.report.labels import labels_of
from fastqps.bench.report.plots import plots_of
from fastqps.bench.report.points import name_of, text, verdict_of
from fastqps.bench.report.run_facts import run_facts
from fastqps.bench.report.summary import facts_of, severity
from fastqps.bench.report.tables import tables_of
from fastqps.bench.results.point import Point
from fastqps.bench.results.result import Result

_REMARKS_MAX = 6  # more of them are folded
_VOID = "fewer than 10 samples lie beyond this percentile"
_PAGES = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True)


@dataclass(frozen=True)
class Cell:
    """``kind``: classes of the style sheet; ``title``: a tool tip."""

    text: str
    kind: str
    title: str


@dataclass(frozen=True)
class Row:
    """A point. ``kind``: how sound it is, and whether it is the best."""

    name: str
    kind: str
    cells: list[Cell]


def page(result: Result) -> str:
    """The whole document. What the result lacks is left out; nothing in it is taken for markup."""
    model, device, address = (text(result.target, key) for key in ("model", "device", "address"))
    about = " on ".join(filter(None, (model, device))) or address
    columns = columns_of(result)
    return _PAGES.get_template("page.html.j2").render(
        title=f"fastqps bench {result.mode}" + (f": {about}" if about else ""),
        result=result,
        facts=wording.one_line(", ".join(facts_of(result)).replace(", (", " (")),
        severity=severity,
        labels=labels_of(result),
        run_facts=run_facts(result),
        notes=[wording.one_line(note) for note in result.notes],
        heads=[(column.head, "" if column.is_numeric(result.points) else " text") for column in columns],
        rows=[_row(result, columns, point) for point in result.points],
        remarks=_remarks(result, columns),
        remarks_max=_REMARKS_MAX,
        tables=tables_of(result),
        plots=plots_of(result),
    )


def _row(result: Result, columns: Sequence[Column], point: Point) -> Row:
    kind = severity(verdict_of(point)) + (" best" if point is result.best_point else "")
    numeric = [column.is_numeric(result.points) for column in columns[1:]]
    cells = [_cell(column, point, right) for column, right in zip(columns[1:], numeric, strict=True)]
    return Row(columns[0].text(point), kind, cells)


def _cell(column: Column, point: Point, numeric: bool) -> Cell:
    void = column.is_void(point)
    kinds = {"text": not numeric, "status": column.head == "verdict", "void": void}
    kind = " ".join(name for name, holds in kinds.items() if holds)
    return Cell(column.text(point), kind, _VOID if void else column.exact(point))


def _remarks(result: Result, columns: Sequence[Column]) -> list[str]:
    """Why some points are in doubt."""
    void = any(column.is_void(point) for column in columns for point in result.points)
    found = [f"{wording.NOTHING} or grey: {_VOID}; it says nothing."] if void else []
    for point in result.points:
        name = name_of(result, point)
        found += [f"{name} is {verdict_of(point)}: {wording.one_line(reason)}" for reason in point.reasons]
    return found
