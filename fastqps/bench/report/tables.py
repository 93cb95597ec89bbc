"""The tables of a report: the points, with the columns that hold something, and what single modes find. The terminal
and the page draw them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fastqps.bench.report import wording
from fastqps.bench.report.points import (
    fates,
    name_of,
    rate_of,
    response_us,
    searched_settings,
    stage_table,
    text,
    verdict_of,
)
from fastqps.bench.report.summary import severity
from fastqps.bench.results.point import Point
from fastqps.bench.results.result import Result

Value = Callable[[Point], float | str | None]
Show = Callable[[float | None], str]


@dataclass(frozen=True)
class Column:
    """One column: a point's number or text, and how it is shown.

    Attributes:
        head: the heading.
        value: a point's value; None where it has none.
        show: the value as text.
        percentile: whether the value is a percentile, which too few samples make void.
        brief: also on the terminal, where room is scarce.
    """

    head: str
    value: Value
    show: Show = wording.count
    percentile: bool = False
    brief: bool = True

    def text(self, point: Point) -> str:
        value = self.value(point)
        return (value or wording.NOTHING) if isinstance(value, str) else self.show(value)

    def is_numeric(self, points: Sequence[Point]) -> bool:
        """True if the column holds figures, to be aligned as such."""
        return all(not isinstance(v := self.value(point), str) or not v.strip("0123456789.,") for point in points)

    def is_void(self, point: Point) -> bool:
        return self.percentile and self.value(point) is None


def columns_of(result: Result) -> list[Column]:
    """The columns in which some point has a value: name, which tells what was varied, verdict, figures."""
    searched = searched_settings(result)
    head = " · ".join(map(wording.spaced, searched)) or "point"
    every = [Column(head, lambda point: name_of(result, point)), Column("verdict", verdict_of), *_COLUMNS]
    return [column for column in every if any(column.value(point) not in (None, "") for point in result.points)]


def _response(head: str, statistic: str, brief: bool = True) -> Column:
    return Column(head, lambda point: response_us(point, statistic), wording.time, statistic != "max", brief)


def _sm_utilization(point: Point) -> float | None:
    """Mean over the devices that know it."""
    shares = [share for device in point.devices or [] if (share := device.get("sm_utilization")) is not None]
    return sum(shares) / len(shares) if shares else None


def _share(fate: str) -> Value:
    """The share of calls with this end; None where there is none, so that an empty column is left out."""
    return lambda point: fates(point.status)[fate] / point.answers if fates(point.status)[fate] else None


_COLUMNS = (
    Column("in flight", lambda point: point.load.get("in_flight")),
    Column("offered", lambda point: point.offered_rate, wording.rate),
    Column("answered OK", rate_of, wording.rate),
    Column("goodput", lambda point: point.goodput, wording.rate),
    _response("p50", "p50"),
    _response("p90", "p90", brief=False),
    _response("p99", "p99"),
    _response("p99.9", "p999", brief=False),
    _response("max", "max", brief=False),
    Column("refused", _share("refused"), wording.percent),
    Column("expired", _share("expired"), wording.percent),
    Column("failed", _share("failed"), wording.percent),
    Column("duty cycle", lambda point: point.duty_cycle, wording.percent),
    Column("SM utilization", _sm_utilization, wording.percent, brief=False),
    Column("items per step", lambda point: (point.batch or {}).get("items"), brief=False),
    Column("service p99", lambda point: point.service_time_us.get("p99"), wording.time, True, False),
    Column("late p99", lambda point: point.lateness_us.get("p99"), wording.time, brief=False),
)


class Head(NamedTuple):
    """``left``: its cells are words, not figures. ``brief``: also where room is scarce."""

    text: str
    left: bool = False
    brief: bool = True


class Cell(NamedTuple):
    """``void``: too few samples, it says nothing."""

    text: str
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
    makers = (_points, _drift, _stages, _decisions)
    return [table for make in makers if (table := make(result)).rows]


def _points(result: Result) -> Table:
    columns = columns_of(result)
    rows = [
        Row(
            [Cell(column.text(point), column.is_void(point)) for column in columns],
            severity(verdict_of(point)),
            point is result.best_point,
        )
        for point in result.points
    ]
    heads = [Head(column.head, not column.is_numeric(result.points), column.brief) for column in columns]
    return Table("points", "Points", heads, rows)


def _plain(key: str, title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table of text, aligned like figures except for the names of the rows."""
    return Table(
        key, title, [Head(head, not at) for at, head in enumerate(heads)], [Row([*map(Cell, row)]) for row in rows]
    )


def _decisions(result: Result) -> Table:
    """The tuner's choices in turn: why each value won, and by how much."""
    rows = []
    for choice in result.extra.get("tune", {}).get("choices", ()):
        if why := text(choice, "why"):
            lead = choice.get("lead") or {}
            cells = [text(lead, "over"), text(lead, "gain"), wording.percent(lead.get("beyond_noise"))]

            name = wording.one_line(f"{wording.spaced(choice['setting'])} {wording.setting(choice['chosen'])}")
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
