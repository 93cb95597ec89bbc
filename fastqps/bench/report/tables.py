"""The tables of a report: the points, and what single modes find. The terminal and the page draw them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fastqps.bench.report import wording
from fastqps.bench.report.columns import columns_of
from fastqps.bench.report.points import number, stage_table, text, verdict_of
from fastqps.bench.report.summary import severity
from fastqps.bench.results.result import Result


class Head(NamedTuple):
    """``left``: its cells are words, not figures. ``brief``: also where room is scarce."""

    text: str
    left: bool = False
    brief: bool = True


class Cell(NamedTuple):
    """``exact``: the figure without rounding. ``void``: too few samples, it says nothing."""

    text: str
    exact: str = ""
    void: bool = False


class Row(NamedTuple):
    """The first cell names it. ``severity`` of a point's verdict; ``best``: it is the point that was looked for."""

    cells: Sequence[Cell]
    severity: str = ""
    best: bool = False


@dataclass(frozen=True)
class Table:
    """``key``: its name in the page."""

    key: str
    title: str
    heads: Sequence[Head]
    rows: Sequence[Row]


def tables_of(result: Result) -> list[Table]:
    """The tables that are not empty."""
    makers = (_points, _differences, _drift, _stages, _decisions)
    return [table for make in makers if (table := make(result)).rows]


def _points(result: Result) -> Table:
    columns = columns_of(result)
    rows = [
        Row(
            [Cell(column.text(point), column.exact(point), column.is_void(point)) for column in columns],
            severity(verdict_of(point)),
            point is result.best_point,
        )
        for point in result.points
    ]
    heads = [Head(column.head, not column.is_numeric(result.points), column.brief) for column in columns]
    return Table("points", "Points", heads, rows)


def _plain(key: str, title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Of text; all but the names of the rows is aligned as figures are."""
    return Table(
        key, title, [Head(head, not at) for at, head in enumerate(heads)], [Row([*map(Cell, row)]) for row in rows]
    )


def _differences(result: Result) -> Table:
    rows = []
    for entry in result.extra.get("differences", ()):
        show = _shown(entry["metric"])
        ends = " … ".join(wording.signed_percent(end) for end in entry["interval"])
        known = "significant" if entry["significant"] else "no significant change"
        figures = [show(entry["a"]), show(entry["b"]), wording.signed_percent(entry["difference"])]
        rows.append([wording.one_line(entry["name"]), *figures, ends, known])
    return _plain("differences", "Differences", ["", "a", "b", "difference", "95 % interval", ""], rows)


def _shown(metric: str) -> Callable[[float | None], str]:
    """Formats a compared figure by its name in a point."""
    if metric.endswith("_us"):
        return wording.time
    return wording.percent if metric == "duty_cycle" else wording.rate


def _decisions(result: Result) -> Table:
    """The tuner's choices in turn: why each value won, and by how much."""
    rows = []
    for choice in result.extra.get("tune", {}).get("choices", ()):
        if why := text(choice, "why"):
            lead = choice.get("lead") or {}
            cells = [text(lead, "over"), text(lead, "gain"), wording.percent(number(lead, "beyond_noise"))]
            name = wording.one_line(f"{wording.words(choice['setting'])} {wording.setting(choice['chosen'])}")
            rows.append([name, *(cells if cells[0] else [wording.NOTHING] * 3), why])
    return _plain("decisions", "Why it won", ["chosen", "next best", "lead", "beyond noise", "because"], rows)


def _drift(result: Result) -> Table:
    rows = []
    for entry in result.extra.get("drift", ()):
        show = {"us": wording.time, "bytes": wording.mebibytes}.get(entry["unit"], wording.count)
        known = wording.NOTHING if entry["first"] is None else "no sure growth"
        ends = [show(entry["first"]), show(entry["last"]), wording.signed_percent(entry["growth"])]
        rows.append([entry["name"], *ends, "grows" if entry["grows"] else known])
    return _plain("drift", "Drift", ["", "at first", "at last", "growth", ""], rows)


def _stages(result: Result) -> Table:
    head, *rows = (stage_table(result.points) if result.mode == "breakdown" else []) or [[]]
    return _plain("stages", "Stages: mean time and share of end to end", head, rows)
