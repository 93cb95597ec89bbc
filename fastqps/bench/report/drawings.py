"""The plots of a report: functions that draw a result into a figure, and describe it in words; "" where the result
has no data for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import chain

from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FuncFormatter

from fastqps.bench.report import wording
from fastqps.bench.report.panels import limits, load_axis, mark_doubt, stack, time_axis
from fastqps.bench.report.points import (
    IDLE_REASONS,
    main_point,
    name_of,
    response_us,
    stage_means,
    stage_names,
    steady,
    varied_settings,
    verdict_of,
)
from fastqps.bench.results.point import Point
from fastqps.bench.results.result import Result

_NAME_MAX = 26
_SECOND = ("t_s", "length_s", "sent", "ok", "p50_us", "p99_us", "in_flight", "waiting")
_LINES = {"p50": "p50", "p90": "p90", "p99": "p99", "p999": "p99.9"}


def latency(result: Result, figure: Figure) -> str:
    """p50 to p99.9 of the response time over the offered rate."""
    points = points_by_load(result)
    values = {name: [_usable(point, name) for point in points] for name in _LINES}
    if all(map(math.isnan, chain(*values.values()))):
        return ""
    panel, rates = figure.subplots(), [_offered(point) for point in points]
    for name, label in _LINES.items():
        panel.plot(rates, values[name], _style(result), label=label)
    mark_doubt(panel, points, rates, values["p99"])
    limits(panel, result)
    if best := result.best_point:
        panel.axvline(_offered(best), color="tab:green", linestyle=":", label="result")
    time_axis(panel, "response time")
    load_axis(panel)
    ends = [f"{wording.time(response_us(p, 'p99'))} at {wording.rate(_offered(p))}" for p in (points[0], points[-1])]
    return f"p99 response time is {' and '.join(ends)}."


def goodput(result: Result, figure: Figure) -> str:
    """OK answers, and those within the SLO, over the offered rate."""
    points = [point for point in points_by_load(result) if not point.missing]
    if not points:
        return ""
    panel, rates = figure.subplots(), [_offered(point) for point in points]
    panel.plot([0, rates[-1]], [0, rates[-1]], ":", color="gray", label="offered")
    panel.plot(rates, [point.rate for point in points], _style(result), label="answered OK")
    shown = [point.rate if point.goodput is None else point.goodput for point in points]
    if any(point.goodput is not None for point in points):
        panel.plot(rates, shown, _style(result), color="tab:green", label="goodput")
    mark_doubt(panel, points, rates, shown)
    panel.yaxis.set_major_formatter(EngFormatter(sep=""))
    panel.set_ylabel("per second")
    load_axis(panel)
    return f"At {wording.rate(rates[-1])} offered: {wording.rate(shown[-1])}; most: {wording.rate(max(shown))}."


def stages(result: Result, figure: Figure) -> str:
    """Each stage's share of the end-to-end time."""
    best = main_point(result)
    points = [best] if result.mode == "tune" and best else result.points
    rows = [(_bar_name(result, point), means) for point in points if sum((means := stage_means(point)).values()) > 0]
    names = stage_names([means for _, means in rows])
    bars = [(row, {stage: means.get(stage, 0.0) / sum(means.values()) for stage in names}) for row, means in rows]
    stack(figure, bars)
    return "; ".join(f"{row} {wording.time(sum(means.values()))} end to end" for row, means in rows)


def duty_cycle(result: Result, figure: Figure) -> str:
    """The part of the time in which the device worked, and the reasons for the rest: by point, or by dispatcher."""
    rows = [(_bar_name(result, point), point.duty_cycle, point.idle_reasons) for point in result.points]
    if len(rows) == 1:
        each = result.points[0].dispatchers or []
        rows = [(f"dispatcher {one['dispatcher']}", one["busy"], one["idle"]) for one in each]
    bars = [(name, {"device": busy, **_idle(idle, 1 - busy)}) for name, busy, idle in rows if busy is not None]
    stack(figure, bars)
    return "; ".join(f"{name} busy {wording.percent(bar['device'])}" for name, bar in bars)


def spectrum(result: Result, figure: Figure) -> str:
    """Response and service time over all percentiles."""
    point = main_point(result)
    curves = {kind: points for kind in ("response", "service") if (points := _curve(point, kind))}
    if not point or not curves:
        return ""
    panel = figure.subplots()
    for kind, curve in curves.items():
        panel.plot(*zip(*curve, strict=True), label=f"{kind} time")
    panel.set_xscale("log")
    panel.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{100 * (1 - 1 / x):.10g} %"))
    panel.set_xlabel("percentile")
    time_axis(panel, "")
    known = [f"{label} {wording.time(us)}" for name, label in _LINES.items() if (us := response_us(point, name))]
    return f"Response time of {name_of(result, point)} by percentile: {', '.join(known) or 'no samples'}."


def timeline(result: Result, figure: Figure) -> str:
    """Rates, latencies and open calls from second to second."""
    point = result.best_point or next(reversed(result.points), None)
    rows = point.timeline if point else []
    if not point or len(rows) < 2:
        return ""
    figure.set_figheight(4.4)
    panels = figure.subplots(3, sharex=True, height_ratios=[3, 3, 2])
    column = {name: [row.get(name) or 0.0 for row in rows] for name in _SECOND}
    for name, label in (("sent", "sent"), ("ok", "answered OK")):
        per_s = [n / (length or 1.0) for n, length in zip(column[name], column["length_s"], strict=True)]
        panels[0].plot(column["t_s"], per_s, label=label)
    for name in ("p50", "p99"):
        panels[1].plot(column["t_s"], [us or math.nan for us in column[f"{name}_us"]], label=name)
    panels[2].plot(column["t_s"], [sum(n) for n in zip(column["in_flight"], column["waiting"], strict=True)])
    limits(panels[1], result)
    time_axis(panels[1], "response time")
    for panel, label in ((panels[0], "per second"), (panels[2], "open calls")):
        panel.set_ylabel(label)
        panel.set_ylim(bottom=0)
        panel.yaxis.set_major_formatter(EngFormatter(sep=""))
    panels[0].legend(ncols=2, loc="lower left")
    panels[2].set_xlabel("seconds")
    worst = wording.time(max(column["p99_us"]))
    return f"{len(rows)} seconds of {name_of(result, point)}; worst p99 of a second {worst}."


def processes(result: Result, figure: Figure) -> str:
    """Private memory and open descriptors by role, over a long run."""
    samples = result.extra.get("processes") or []
    roles = list(dict.fromkeys(role for sample in samples for role in sample["memory_bytes"]))
    if len(samples) < 2 or not roles:
        return ""
    panels, seconds = figure.subplots(2, sharex=True), [sample["t_s"] for sample in samples]
    kinds = (("memory_bytes", 1 << 20, "MiB"), ("descriptors", 1, "descriptors"))
    for panel, (key, unit, label) in zip(panels, kinds, strict=True):
        for role in roles:
            panel.plot(seconds, [sample[key].get(role, 0) / unit for sample in samples], label=role)
        panel.set_ylim(bottom=0)
        panel.set_ylabel(label)
    panels[0].legend()
    panels[1].set_xlabel("seconds")
    return f"{len(samples)} samples of {', '.join(roles)}."


def points_by_load(result: Result) -> list[Point]:
    """The points in the order of their offered rates, if they differ in nothing else; else none."""
    points = [point for point in steady(result.points) if _offered(point) > 0]
    alike = not varied_settings(points) and result.mode != "tune"

    return sorted(points, key=_offered) if alike and len(set(map(_offered, points))) > 1 else []


def _offered(point: Point) -> float:
    return point.offered_rate or 0.0


def _style(result: Result) -> str:
    """Points are joined, but for those of a search: it comes back to a rate."""
    return "o" if result.mode == "find-max" else "o-"


def _usable(point: Point, name: str) -> float:
    """A percentile of the response time; NaN, which is not drawn, where it says nothing."""
    value = response_us(point, name)
    return value if value and value > 0 else math.nan


def _curve(point: Point | None, kind: str) -> list[tuple[float, float]]:
    """(1 / (1 - p), µs), without the maximum, which has no place on that axis."""
    pairs = (point.spectrum.get(kind) if point else None) or []
    curve = [(1 / (1 - percentile / 100), us) for percentile, us in pairs if us > 0 and percentile < 100]
    return curve if len(curve) > 1 else []


def _idle(reasons: Mapping[str, float] | None, total: float) -> dict[str, float]:
    """Shares of the time by reason, in the order of a step, scaled so that they add up to ``total``."""
    shares = dict.fromkeys(IDLE_REASONS, 0.0) | dict(reasons or {})
    whole = sum(shares.values())
    return {reason: share / whole * total for reason, share in shares.items()} if whole > 0 else {}


def _bar_name(result: Result, point: Point) -> str:
    """The point's name, with its verdict if that is in doubt."""
    name, verdict = name_of(result, point), verdict_of(point)
    name = name if len(name) <= _NAME_MAX else f"{name[: _NAME_MAX - 1]}…"
    return name if verdict == "VALID" else f"{name} {verdict}"
