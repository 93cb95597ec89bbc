"""Latency against the offered load, and the whole spectrum of one load's latencies."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from fastqps.bench.report import wording
from fastqps.bench.report.ink import INK, Drawing
from fastqps.bench.report.plots.plot import Plot, mark_doubt, rate_axis, slo_lines, time_axis
from fastqps.bench.report.reading import (
    Json,
    best_of,
    mapping_at,
    name_at,
    number_at,
    pairs_at,
    points_of,
    response_us,
    steady_points,
    text_at,
    too_few,
    varied_settings,
)
from fastqps.bench.report.summary import main_point

_ALTERNATIVES = ("compare", "ablate", "starve", "tune", "calibrate")  # modes whose points are no loads of one server
_LINES = {"p50": "p50", "p90": "p90", "p99": "p99", "p999": "p99.9"}


def points_by_load(result: Json) -> list[Json]:
    """The points in the order of their offered rates, if they differ in nothing else; else none."""
    points = [point for point in steady_points(result) if (number_at(point, "offered_rate") or 0) > 0]
    loads = {number_at(point, "offered_rate") for point in points}
    alike = not varied_settings(points) and text_at(result, "mode") not in _ALTERNATIVES
    return sorted(points, key=lambda p: number_at(p, "offered_rate") or 0.0) if alike and len(loads) > 1 else []


def style_of(result: Json) -> str:
    """Points are joined, but for those of a search: it comes back to a rate, and each of its probes is an accident."""
    return "o" if text_at(result, "mode") == "find-max" else "o-"


def latency_by_load(result: Json) -> Plot | None:
    """p50 to p99.9 of the response time over the offered rate."""
    points = points_by_load(result)
    values = {name: [_usable(point, name) for point in points] for name in _LINES}
    every = [value for line in values.values() for value in line if value]
    if not points or not every:
        return None
    rates = [number_at(point, "offered_rate") or 0.0 for point in points]
    with Drawing(300) as drawing:
        panel = drawing.panels[0]
        for name, label in _LINES.items():
            known = [(rate, value) for rate, value in zip(rates, values[name], strict=True) if value]
            if known:
                panel.plot(*zip(*known, strict=True), style_of(result), color=INK[name], markersize=3.5, label=label)
        mark_doubt(panel, points, rates, values["p99"])
        time_axis(panel, [*every, *slo_lines(panel, result)])
        rate_axis(panel, "offered requests per second")
        panel.set_xlim(right=max(rates) * 1.05)
        knee = _mark_knee(panel, result)
        drawing.legend(panel)
        low, high = points[0], points[-1]
        alt = (
            f"p99 response time is {wording.time(response_us(low, 'p99'))} at {wording.rate(rates[0])} offered and "
            f"{wording.time(response_us(high, 'p99'))} at {wording.rate(rates[-1])}.{knee}"
        )
        svg = drawing.svg(alt, "latency")
    knee_is = (
        "the highest load that met the objective" if mapping_at(result, "slo") else "where rate over p99 is highest"
    )
    reading = (
        f"Flat lines are a server with room; where they turn upwards, requests begin to queue. The knee is {knee_is}. "
        "Times are logarithmic and count from when a request should have been sent."
    )
    return Plot("latency", "Latency against offered load", svg, reading)


def _mark_knee(panel: Axes, result: Json) -> str:
    best = best_of(result)
    knee = number_at(best, "offered_rate")
    if knee is None:
        return ""
    panel.axvline(knee, color=INK["good"], linestyle=(0, (2, 2)), linewidth=1.2)
    panel.annotate(
        f"knee {wording.rate(knee)}",
        (knee, 0.02),
        xycoords=("data", "axes fraction"),
        xytext=(-3, 0),
        textcoords="offset points",
        ha="right",
        color=INK["good"],
        fontsize=9,
    )
    return f" The knee is at {wording.rate(knee)}."


def _usable(point: Json, name: str) -> float | None:
    value = response_us(point, name)
    return value if value and value > 0 and not too_few(point, name) else None


def spectrum(result: Json) -> Plot | None:
    """Response and service time over all percentiles, of the point that stands for the run; of both in a comparison."""
    points = points_of(result) if text_at(result, "mode") == "compare" else [main_point(result)]
    curves = {
        (index, kind): curve
        for index, point in enumerate(points[:2])
        for kind in ("response", "service")
        if len(curve := _curve(point, kind)) > 1
    }
    if not curves:
        return None
    with Drawing(290) as drawing:
        panel = drawing.panels[0]
        for (index, kind), curve in curves.items():
            name = f"{text_at(points[index], 'name')} {kind}" if len(points) > 1 else f"{kind} time"
            ink = INK[("p99", "p50")[index]] if len(points) > 1 else INK["p99" if kind == "response" else "p50"]
            panel.plot(*zip(*curve, strict=True), "-" if kind == "response" else "--", color=ink, label=name)
        panel.set_xscale("log")
        beyond = max(x for curve in curves.values() for x, _ in curve)
        time_axis(panel, [us for curve in curves.values() for _, us in curve])
        nines = [10.0**n for n in range(9) if 10.0**n <= max(10.0, beyond)]
        panel.xaxis.set_major_locator(FixedLocator([1.0, 2.0, *nines[1:]]))
        panel.xaxis.set_minor_locator(NullLocator())
        panel.xaxis.set_major_formatter(FuncFormatter(lambda x, _: _percentile_label(x)))
        panel.set_xlabel("percentile")
        drawing.legend(panel)
        svg = drawing.svg(_spectrum_alt(points[0]), "spectrum")
    where = f" at {name}" if len(points) == 1 and (name := name_at(result, points[0])) else ""
    reading = (
        "Each step to the right is ten times rarer. Service time counts from the actual sending, response time from "
        "the intended one: where they part, requests waited before they could be sent."
    )
    return Plot("spectrum", f"Percentile spectrum{where}", svg, reading)


def _curve(point: Json, kind: str) -> list[tuple[float, float]]:
    """(1 / (1 - p), µs), without the maximum, which has no place on that axis."""
    curve = []
    for percentile, us in pairs_at(point, "spectrum", kind):
        if us > 0 and 0 <= percentile < 100:
            curve.append((1 / (1 - percentile / 100), us))
    return sorted(curve)


def _percentile_label(x: float) -> str:
    if x <= 1:
        return "0"
    return f"{100 * (1 - 1 / x):.10g} %"


def _spectrum_alt(point: Json) -> str:
    found = [
        f"{label} {wording.time(us)}" for name, label in _LINES.items() if (us := response_us(point, name)) is not None
    ]
    return f"Response time by percentile: {', '.join(found) or 'no samples'}."
