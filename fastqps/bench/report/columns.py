"""The columns of the table of points, on the terminal and in the report: only those that hold something."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fastqps.bench.report import wording
from fastqps.bench.report.points import (
    fates,
    name_of,
    number,
    rate_of,
    response_us,
    searched_settings,
    too_few,
    verdict_of,
)
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
        percentile: p99 or the like if the value is a percentile of the response time, which too few samples make void.
        brief: also on the terminal, where room is scarce.
    """

    head: str
    value: Value
    show: Show = wording.count
    percentile: str = ""
    brief: bool = True

    def text(self, point: Point) -> str:
        value = self.value(point)
        return (value or wording.NOTHING) if isinstance(value, str) else self.show(value)

    def exact(self, point: Point) -> str:
        """The figure without rounding, for a tool tip; "" for text."""
        value = self.value(point)
        return repr(value) if isinstance(value, float) else ""

    def is_numeric(self, points: Sequence[Point]) -> bool:
        """True if the column holds figures, to be aligned as such."""
        return all(not isinstance(v := self.value(point), str) or not v.strip("0123456789.,") for point in points)

    def is_void(self, point: Point) -> bool:
        return bool(self.percentile) and too_few(point, self.percentile)


def columns_of(result: Result) -> list[Column]:
    """The columns in which some point has a value: name, which tells what was varied, verdict, figures."""
    searched = searched_settings(result)
    head = " · ".join(map(wording.words, searched)) or "point"
    every = [Column(head, lambda point: name_of(result, point)), Column("verdict", verdict_of), *_COLUMNS]
    return [column for column in every if any(column.value(point) not in (None, "") for point in result.points)]


def _response(head: str, statistic: str, brief: bool = True) -> Column:
    return Column(head, lambda point: response_us(point, statistic), wording.time, statistic, brief)


def _sm_utilization(point: Point) -> float | None:
    """Mean over the devices that know it."""
    found = [share for device in point.devices or [] if (share := number(device, "sm_utilization")) is not None]
    return sum(found) / len(found) if found else None


def _share(fate: str) -> Value:
    """The share of calls with this end; None where there is none, so that an empty column is left out."""
    return lambda point: fates(point.status)[fate] / point.answers if fates(point.status)[fate] else None


_COLUMNS = (
    Column("in flight", lambda point: number(point.load, "in_flight")),
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
    Column("service p99", lambda point: point.service_time_us.get("p99"), wording.time, "p99", False),
    Column("late p99", lambda point: point.lateness_us.get("p99"), wording.time, brief=False),
)
