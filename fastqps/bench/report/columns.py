"""The columns of the table of points, on the terminal and in the report: only those that hold something."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fastqps.bench.report import wording
from fastqps.bench.report.reading import (
    Json,
    answers_by_fate,
    list_at,
    name_at,
    number_at,
    points_of,
    rate_at,
    response_us,
    setting_at,
    setting_names,
    too_few,
    varied_settings,
    verdict_at,
)


@dataclass(frozen=True)
class Column:
    """One column: the number or text that the JSON holds, and how it is shown.

    Attributes:
        head: the heading.
        value: a point's value; None where it has none.
        show: the value as text.
        key: where the value lies in a point, for tool tips; '' for one that is computed.
        percentile: p99 or the like if the value is a percentile of the response time, which too few samples make void.
        brief: also on the terminal, where room is scarce.
    """

    head: str
    value: Callable[[Json], float | str | None]
    show: Callable[[float | None], str] = wording.count
    key: str = ""
    percentile: str = ""
    brief: bool = True

    def text(self, point: Json) -> str:
        value = self.value(point)
        return (value or wording.NOTHING) if isinstance(value, str) else self.show(value)

    def is_numeric(self, points: Sequence[Json]) -> bool:
        """True if the column is one of figures, to be aligned as such."""
        return all(not isinstance(v := self.value(point), str) or not v.strip("0123456789.,") for point in points)

    def is_void(self, point: Json) -> bool:
        return bool(self.percentile) and too_few(point, self.percentile)


def columns_of(result: Json) -> list[Column]:
    """Those in which some point has a value: name, verdict, figures, varied settings."""
    points = points_of(result)
    searched = setting_names(result)
    settings = [] if searched else [_setting(name) for name in varied_settings(points)]
    head = " · ".join(map(wording.words, searched)) or "point"
    every = [Column(head, lambda point: name_at(result, point), key="name"), _VERDICT, *_COLUMNS, *settings]
    return [column for column in every if any(column.value(point) not in (None, "") for point in points)]


def _setting(name: str) -> Column:
    return Column(wording.words(name), lambda point: setting_at(point, name), key=f"settings.{name}", brief=False)


def _number(
    head: str, key: str, show: Callable[[float | None], str], percentile: str = "", brief: bool = True
) -> Column:
    keys = key.split(".")
    return Column(head, lambda point: number_at(point, *keys), show, key, percentile, brief)


def _response(head: str, statistic: str, brief: bool = True) -> Column:
    key = f"response_time_us.{statistic}"
    return Column(head, lambda point: response_us(point, statistic), wording.time, key, statistic, brief)


def _sm_utilization(point: Json) -> float | None:
    """Mean over the devices that know it."""
    known = [number_at(device, "sm_utilization") for device in list_at(point, "devices")]
    found = [share for share in known if share is not None]
    return sum(found) / len(found) if found else None


def _share(fate: str) -> Callable[[Json], float | None]:
    """The share of calls with this fate; None where there is none, so that a column of nothing is left out."""

    def share(point: Json) -> float | None:
        fates = answers_by_fate(point)
        return fates[fate] / sum(fates.values()) if fates[fate] > 0 else None

    return share


_VERDICT = Column("verdict", lambda point: verdict_at(point), key="verdict")
_COLUMNS = (
    _number("in flight", "load.in_flight", wording.count),
    _number("offered", "offered_rate", wording.rate),
    Column("answered OK", rate_at, wording.rate, "rate"),
    _number("goodput", "goodput", wording.rate),
    _response("p50", "p50"),
    _response("p90", "p90", brief=False),
    _response("p99", "p99"),
    _response("p99.9", "p999", brief=False),
    _response("max", "max", brief=False),
    Column("refused", _share("refused"), wording.percent),
    Column("expired", _share("expired"), wording.percent),
    Column("failed", _share("failed"), wording.percent),
    _number("duty cycle", "duty_cycle", wording.percent),
    Column("SM utilisation", _sm_utilization, wording.percent, brief=False),
    _number("items per step", "batch.items", wording.count, "", False),
    _number("service p99", "service_time_us.p99", wording.time, "p99", False),
    _number("late p99", "lateness_us.p99", wording.time, "", False),
)
