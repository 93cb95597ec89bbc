"""Lines over the offered load, the spectrum of one load's latencies, and how late the generator was."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from fastqps.bench.report import wording
from fastqps.bench.report.ink import INK, Drawing
from fastqps.bench.report.plots.plot import Plot, at, line, mark_doubt, rate_axis, shorten, slo_lines, time_axis
from fastqps.bench.report.points import main_point, number, response_us, steady, too_few, varied_settings, verdict_of
from fastqps.bench.results.point import Point
from fastqps.bench.results.result import Result

_ALTERNATIVES = ("compare", "tune", "calibrate")  # modes whose points are no loads of one server
_LINES = {"p50": "p50", "p90": "p90", "p99": "p99", "p999": "p99.9"}
_LATENESS_POINTS_MAX = 40


def points_by_load(result: Result) -> list[Point]:
    """The points in the order of their offered rates, if they differ in nothing else; else none."""
    points = [point for point in steady(result.points) if _offered(point) > 0]
    alike = not varied_settings(points) and result.mode not in _ALTERNATIVES
    return sorted(points, key=_offered) if alike and len(set(map(_offered, points))) > 1 else []


def _offered(point: Point) -> float:
    return point.offered_rate or 0.0


def _style(result: Result) -> str:
    """Points are joined, but for those of a search: it comes back to a rate, and each of its probes is an accident."""
    return "o" if result.mode == "find-max" else "o-"


def latency_by_load(result: Result) -> Plot | None:
    """p50 to p99.9 of the response time over the offered rate."""
    points = points_by_load(result)
    values = {name: [_usable(point, name) for point in points] for name in _LINES}
    every = [value for found in values.values() for value in found]
    if not any(every):
        return None
    rates = [_offered(point) for point in points]
    with Drawing("latency", 300) as drawing:
        panel = drawing.panels[0]
        for name, label in _LINES.items():
            line(panel, zip(rates, values[name], strict=True), name, _style(result), markersize=3.5, label=label)
        mark_doubt(panel, points, rates, values["p99"])
        time_axis(panel, [*every, *slo_lines(panel, result)])
        rate_axis(panel, "offered requests per second")
        panel.set_xlim(right=max(rates) * 1.05)
        knee = _mark_knee(panel, result)
        drawing.legend(panel)
        ends = [wording.time(response_us(point, "p99")) for point in (points[0], points[-1])]
        at_ends = f"{ends[0]} at {wording.rate(rates[0])} offered and {ends[1]} at {wording.rate(rates[-1])}"
        svg = drawing.svg(f"p99 response time is {at_ends}.{knee}")
    knee_is = "the highest load that met the objective" if result.slo else "where rate over p99 is highest"
    reading = (
        f"Flat lines are a server with room; where they turn upwards, requests begin to queue. The knee is {knee_is}. "
        "Times are logarithmic and count from when a request should have been sent."
    )
    return Plot("latency", "Latency against offered load", svg, reading)


def _mark_knee(panel: Axes, result: Result) -> str:
    knee = result.best_point.offered_rate if result.best_point else None
    if knee is None:
        return ""
    panel.axvline(knee, color=INK["good"], linestyle=(0, (2, 2)), linewidth=1.2)
    panel.annotate(f"knee {wording.rate(knee)}", (knee, 0.02), xycoords=("data", "axes fraction"), xytext=(-3, 0),
                   textcoords="offset points", ha="right", color=INK["good"], fontsize=9)  # fmt: skip
    return f" The knee is at {wording.rate(knee)}."


def _usable(point: Point, name: str) -> float | None:
    value = response_us(point, name)
    return value if value and value > 0 and not too_few(point, name) else None


def goodput_by_load(result: Result) -> Plot | None:
    """OK answers within the SLO over the offered rate, beside the line of a server that answers everything."""
    points = [point for point in points_by_load(result) if not point.missing]
    if not points:
        return None
    offered, answered = [_offered(point) for point in points], [point.rate for point in points]
    goodput = [point.goodput for point in points]
    has_goodput = any(value is not None for value in goodput)
    shown = goodput if has_goodput else answered
    with Drawing("goodput", 290) as drawing:
        panel, ideal = drawing.panels[0], [0, max(offered)]
        line(panel, zip(ideal, ideal, strict=True), "faint", ":", linewidth=1.2, label="ideal")
        line(panel, zip(offered, answered, strict=True), "p50", _style(result), markersize=3.5, label="answered OK")
        if has_goodput:
            line(panel, zip(offered, goodput, strict=True), "good", _style(result), markersize=3.5, label="goodput")
        mark_doubt(panel, points, offered, shown)
        rate_axis(panel, "offered requests per second")
        rate_axis(panel, "per second", of_y=True)
        drawing.legend(panel)
        last, most = wording.rate(shown[-1]), wording.rate(max(value or 0.0 for value in shown))
        word = "Goodput" if has_goodput else "Answers"
        svg = drawing.svg(f"{word} at {wording.rate(offered[-1])} offered: {last}; most: {most}.")
    reading = (
        "On the dotted line everything offered is answered in time. A good server leaves it at its capacity and stays "
        "level beyond; a curve that falls says that overload costs work that is then thrown away."
    )
    return Plot("goodput", "Goodput against offered load", svg, reading)


def spectrum(result: Result) -> Plot | None:
    """Response and service time over all percentiles, of the point that stands for the run; of both in a comparison."""
    best = main_point(result)
    points = result.points[:2] if result.mode == "compare" else [best] if best else []
    several = len(points) > 1
    curves = {
        (k, kind): curve
        for k, point in enumerate(points)
        for kind in ("response", "service")
        if len(curve := _curve(point.spectrum.get(kind) or [])) > 1
    }
    if not curves:
        return None
    with Drawing("spectrum", 290) as drawing:
        panel = drawing.panels[0]
        for (k, kind), curve in curves.items():
            name = f"{points[k].name} {kind}" if several else f"{kind} time"
            ink = ("p99", "p50")[k] if several else "p99" if kind == "response" else "p50"
            line(panel, curve, ink, "-" if kind == "response" else "--", label=name)
        panel.set_xscale("log")
        time_axis(panel, [us for curve in curves.values() for _, us in curve])
        beyond = max(10.0, *(x for curve in curves.values() for x, _ in curve))
        panel.xaxis.set_major_locator(FixedLocator([1.0, 2.0, *(10.0**n for n in range(1, 9) if 10.0**n <= beyond)]))
        panel.xaxis.set_minor_locator(NullLocator())
        panel.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{100 * (1 - 1 / x):.10g} %" if x > 1 else "0"))
        panel.set_xlabel("percentile")
        drawing.legend(panel)
        known = [
            f"{label} {wording.time(us)}" for name, label in _LINES.items() if (us := response_us(points[0], name))
        ]
        svg = drawing.svg(f"Response time by percentile: {', '.join(known) or 'no samples'}.")
    reading = (
        "Each step to the right is ten times rarer. Service time counts from the actual sending, response time from "
        "the intended one: where they part, requests waited before they could be sent."
    )
    return Plot("spectrum", f"Percentile spectrum{'' if several else at(result, points[0])}", svg, reading)


def _curve(pairs: list[list[float]]) -> list[tuple[float, float]]:
    """(1 / (1 - p), µs), without the maximum, which has no place on that axis."""
    return sorted(
        (1 / (1 - pair[0] / 100), pair[1]) for pair in pairs if len(pair) == 2 and pair[1] > 0 <= pair[0] < 100
    )


def lateness(result: Result) -> Plot | None:
    """Lateness of each open-loop point, beside what would make it INVALID."""
    points = [point for point in result.points if point.load.get("loop") != "closed"]
    points = [point for point in points if point.lateness_us.get("p99") is not None][:_LATENESS_POINTS_MAX]
    if not points:
        return None
    values = {name: [point.lateness_us.get(name) for point in points] for name in ("p50", "p99")}
    values["own p99"] = [number(point.generator, "own_lateness_us", "p99") for point in points]
    allowed = [max(1_000.0, 0.05 * (response_us(point, "p99") or 0.0)) for point in points]
    with Drawing("lateness", 260) as drawing:
        panel, places = drawing.panels[0], list(range(len(points)))
        for name, ink, marker in (("p50", "p50", "o"), ("p99", "p99", "o"), ("own p99", "p999", "D")):
            shown = ((x, y or None) for x, y in zip(places, values[name], strict=True))
            line(panel, shown, ink, marker, markersize=5, label=name)
        line(panel, zip(places, allowed, strict=True), "limit", "_", markersize=14, markeredgewidth=1.6,
             label="limit of own p99")  # fmt: skip
        marked = [own or p99 for own, p99 in zip(values["own p99"], values["p99"], strict=True)]
        bad = [y if verdict_of(point) == "INVALID" else None for point, y in zip(points, marked, strict=True)]
        mark_doubt(panel, points, places, bad)
        time_axis(panel, [*(max(0.1, y) for found in values.values() for y in found if y), *allowed])
        panel.set_xlim(-0.6, len(points) - 0.4)
        panel.set_xticks(places, [shorten(wording.one_line(point.name), 18) for point in points])
        if len(points) > 4:
            panel.tick_params(axis="x", labelrotation=45)
            for label in panel.get_xticklabels():
                label.set_horizontalalignment("right")
        panel.grid(visible=False, axis="x")
        drawing.legend(panel)
        worst = max(value or 0.0 for value in values["p99"])
        svg = drawing.svg(f"The generator's p99 lateness is at most {wording.time(worst)}.")
    reading = (
        "Lateness is how much later than planned a request was sent. It counts as latency where the server had let no "
        "stream become free; what the generator caused itself is its own. With its own p99 above the red mark the "
        "point is INVALID: it says more about the generator than about the server."
    )
    return Plot("lateness", "Generator lateness", svg, reading)
