"""Derived values of points for tables, plots and sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fastqps.bench.report import wording
from fastqps.bench.results.point import BEYOND_MIN, QUANTILES, Point
from fastqps.bench.results.result import Result

NOT_RUN = "NOT RUN"
IDLE_REASONS = ("no_work", "batch_delay", "gather", "launch", "shared", "scatter")  # in the order of a step
STAGES = (
    *("receive", "parse", "tokenize", "queue", "gather", "launch", "upstream", "upstream_queue", "device", "scatter"),
    *("drain", "send"),
)
_REFUSED = ("RESOURCE_EXHAUSTED",)
_EXPIRED = ("DEADLINE_EXCEEDED", "TIMEOUT", "EXPIRED_UNSENT")  # at the server; at the generator, sent or not
_CHANGING = ("step", "ramp", "sine")


def verdict_of(point: Point) -> str:
    """VALID, UNSTABLE or INVALID; NOT RUN for a point that only says why it could not be measured."""
    return NOT_RUN if point.missing else point.verdict


def rate_of(point: Point) -> float | None:
    """OK answers per second; None for a point that was not run."""
    return None if point.missing else point.rate


def response_us(point: Point, statistic: str) -> float | None:
    """p50, p99, max, … of the response time, which counts from when a request should have been sent."""
    found = point.response_time_us.get(statistic)
    return getattr(point, f"{statistic}_us", None) if found is None else found


def too_few(point: Point, percentile: str) -> bool:
    """True if fewer than ten samples lie above this percentile of the response time."""
    count = point.response_time_us.get("count")
    return count is not None and percentile in QUANTILES and count * (1 - QUANTILES[percentile]) < BEYOND_MIN - 1e-6


def fates(status: Mapping[str, float]) -> dict[str, float]:
    """Calls by their end: ok, refused, expired, failed. ``status``: calls by gRPC code."""
    ok, refused = status.get("OK", 0), sum(status.get(code, 0) for code in _REFUSED)
    expired = sum(status.get(code, 0) for code in _EXPIRED)
    return {"ok": ok, "refused": refused, "expired": expired, "failed": sum(status.values()) - ok - refused - expired}


def steady(points: Sequence[Point]) -> list[Point]:
    """The points without those whose load changes on purpose while they run."""
    return [point for point in points if not str(point.load.get("arrivals") or "").startswith(_CHANGING)]


def main_point(result: Result) -> Point | None:
    """The point that stands for the run: the best, or else the last one with a steady load. None: there is none."""
    return result.best_point or next(reversed(steady(result.points) or result.points), None)


def setting_of(point: Point, name: str) -> str:
    """A setting as text; "" if the point has none of this name."""
    return wording.one_line(wording.setting(point.settings.get(name)))


def varied_settings(points: Sequence[Point]) -> list[str]:
    """The names of the settings that are not the same in all points, in the order of their first appearance."""
    names = list(dict.fromkeys(name for point in points for name in point.settings))
    return [name for name in names if len({repr(point.settings.get(name)) for point in points}) > 1]


def searched_settings(result: Result) -> list[str]:
    """The settings that a search varied: they tell its points apart better than their names do."""
    return varied_settings(result.points) if result.mode == "tune" else []


def name_of(result: Result, point: Point) -> str:
    """The point's name, or in a search its varied settings, as 2 · 1 · 64; a single one with its name."""
    names = searched_settings(result)
    values = [setting_of(point, name) or wording.NOTHING for name in names]
    if len(names) == 1:
        return f"{wording.words(names[0])} {values[0]}"
    return " · ".join(values) or wording.one_line(point.name)


def number(found: object, *keys: str) -> float | None:
    """A finite number below ``keys``, one after the other; None for anything else."""
    for key in keys:
        if not isinstance(found, Mapping):
            return None
        found = found.get(key)
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        return None
    return float(found)


def maps(found: object) -> list[Mapping[str, Any]]:
    """The mappings in a list; none where there is no list."""
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def text(found: Mapping[str, Any], key: str) -> str:
    """A string or a number as text on one line; "" for anything else."""
    value = found.get(key)
    return wording.one_line(str(value)) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
