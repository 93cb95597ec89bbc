"""points.csv: one line for each point, for spreadsheets and scripts. docs/bench.md describes the columns.

The columns of ``FIXED`` are always there, in this order, empty where a point has no value; behind them one
``setting_NAME`` for each setting that the run varies and one ``status_CODE`` for each status that occurred.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

from fastqps.bench.report.points import IDLE_REASONS, STAGES, fates, rate_of, setting_of, stage_means, verdict_of
from fastqps.bench.results.point import Point
from fastqps.bench.results.result import Result

_STATISTICS = ("p50", "p75", "p90", "p95", "p99", "p999", "max", "mean")
_LOAD = ("loop", "arrivals", "call", "in_flight", "connections", "duration_s", "seed")

Cell = Callable[[Point], object]


def _end(interval: list[float] | None, upper: bool) -> float | None:
    return None if not interval else max(interval) if upper else min(interval)


def _times(prefix: str) -> dict[str, Cell]:
    field = f"{prefix}_time_us" if prefix != "lateness" else "lateness_us"
    return {f"{prefix}_{name}_us": lambda p, name=name: getattr(p, field).get(name) for name in _STATISTICS}  # type: ignore[misc]


def _within(field: str, key: str) -> Cell:
    return lambda point: (getattr(point, field) or {}).get(key)


def _fate(name: str) -> Cell:
    return lambda point: fates(point.status)[name] if point.status else None


_CELLS: dict[str, Cell] = {
    "name": lambda point: point.name,
    "verdict": verdict_of,
    "started": lambda point: point.started,
    "interrupted": lambda point: "yes" if point.interrupted else "no",
    "reasons": lambda point: "; ".join(point.reasons),
    **{name: _within("load", name) for name in _LOAD},
    "offered_rate": lambda point: point.offered_rate,
    "achieved_rate": lambda point: point.achieved_rate,
    "rate": rate_of,
    "goodput": lambda point: point.goodput,
    "rate_low": lambda point: _end(point.rate_interval, False),
    "rate_high": lambda point: _end(point.rate_interval, True),
    **_times("response"),
    "response_count": lambda point: point.response_time_us.get("count"),
    "response_p99_low_us": lambda point: _end(point.p99_interval_us, False),
    "response_p99_high_us": lambda point: _end(point.p99_interval_us, True),
    **_times("service"),
    **_times("lateness"),
    **{name: _fate(name) for name in ("ok", "refused", "expired", "failed")},
    "duty_cycle": lambda point: point.duty_cycle,
    **{f"idle_{reason}": _within("idle_reasons", reason) for reason in IDLE_REASONS},
    **{f"stage_{stage}_mean_us": lambda p, stage=stage: stage_means(p).get(stage) for stage in STAGES},  # type: ignore[misc]
    **{f"batch_{name}": _within("batch", name) for name in ("items", "tokens", "fill")},
    "generator_cpu": _within("generator", "cpu_fraction"),
    "saturation": lambda point: point.saturation,
}
FIXED = tuple(_CELLS)


def points_csv(result: Result) -> str:
    """The file's text, with a header line."""
    settings = list(dict.fromkeys(name for point in result.points for name in point.settings))
    codes = list(dict.fromkeys(code for point in result.points for code in point.status))
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    heads = [f"setting_{name.replace('-', '_')}" for name in settings]
    table.writerow([*FIXED, *heads, *(f"status_{code}" for code in codes)])
    for point in result.points:
        row = [cell(point) for cell in _CELLS.values()]
        row += [setting_of(point, name) for name in settings]
        table.writerow(_plain(value) for value in [*row, *(point.status.get(code) for code in codes)])
    return text.getvalue()


def _plain(value: object) -> object:
    """Whole numbers without a fraction, nothing for None."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return "" if value is None else value
