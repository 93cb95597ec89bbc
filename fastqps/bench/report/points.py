"""Derived values of points for tables, plots and sentences: names, ends of calls, stages of a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastqps.bench.report import wording
from fastqps.bench.results.point import Point
from fastqps.bench.results.result import Result

NOT_RUN = "NOT RUN"
IDLE_REASONS = ("no_work", "batch_delay", "gather", "launch", "shared", "scatter")  # in the order of a step
STAGES = (
    *("receive", "parse", "tokenize", "queue", "gather", "launch", "upstream", "upstream_queue", "device", "scatter"),
    *("drain", "send"),
)
_REFUSED = ("RESOURCE_EXHAUSTED",)
_EXPIRED = ("DEADLINE_EXCEEDED", "TIMEOUT", "EXPIRED_UNSENT")  # at the server; at the generator, sent or not
_CHANGING = "step"


def verdict_of(point: Point) -> str:
    """VALID, UNSTABLE or INVALID; NOT RUN for a point that only says why it could not be measured."""
    return NOT_RUN if point.missing else point.verdict


def rate_of(point: Point) -> float | None:
    """OK answers per second; None for a point that was not run."""
    return None if point.missing else point.rate


def response_us(point: Point, statistic: str) -> float | None:
    """p50, p99, max, … of the response time, which counts from when a request should have been sent."""
    return point.response_time_us.get(statistic)


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
        return f"{wording.spaced(names[0])} {values[0]}"
    return " · ".join(values) or wording.one_line(point.name)


def text(row: Mapping[str, Any], key: str) -> str:
    """A value as text on one line; "" where there is none."""
    return wording.one_line(wording.setting(row.get(key)))


WIRE = "wire"


def stage_means(point: Point) -> dict[str, float]:
    """Mean µs of each stage as the server measured it, then ``wire``: what the generator saw beyond them."""
    stages = {name: spent.get("mean") for name, spent in (point.stages_us or {}).items()}
    means = {name: max(0.0, us) for name, us in stages.items() if us is not None}
    service = point.service_time_us.get("mean")
    if means and WIRE not in means and service is not None:
        means[WIRE] = max(0.0, service - sum(means.values()))
    return means


def stage_names(means: Sequence[dict[str, float]]) -> list[str]:
    """The stages that take any time in some of these, in the order of a request's life; ``wire`` last."""
    named = dict.fromkeys([*STAGES, *(name for one in means for name in one if name != WIRE), WIRE])
    return [name for name in named if any(one.get(name, 0.0) > 0 for one in means)]


def stage_shares(means: dict[str, float]) -> dict[str, float]:
    """Shares of the end-to-end time: device, waiting for it, the host's own work, wire. {} without stages."""
    total = sum(means.values())
    if total <= 0:
        return {}
    device, queue, wire = (means.get(stage, 0.0) / total for stage in ("device", "queue", WIRE))
    return {"device": device, "queue": queue, "host": max(0.0, 1 - device - queue - wire), WIRE: wire}


def stage_table(points: Sequence[Point]) -> list[list[str]]:
    """Rows of text: the points' names; each stage with its time and share of each point; the sum. [] without stages."""
    columns = [(wording.one_line(p.name), means) for p in points if sum((means := stage_means(p)).values()) > 0]
    if not columns:
        return []
    every = [means for _, means in columns]
    return [
        ["stage", *(name for name, _ in columns)],
        *([stage, *(_cell(means, stage) for means in every)] for stage in stage_names(every)),
        ["end to end", *(wording.time(sum(means.values())) for means in every)],
        *(
            [f"{part} share", *(wording.percent(stage_shares(means)[part]) for means in every)]
            for part in ("device", "queue", "host", WIRE)
        ),
    ]


def _cell(means: dict[str, float], stage: str) -> str:
    us = means.get(stage, 0.0)
    parts = wording.time(us), wording.percent(us / sum(means.values()))
    return " · ".join(part.replace(" ", "\u00a0") for part in parts)  # a line may end between them only
