"""Plots of the modes that compare: optimizations, fewer cores, two results, a device and its profile."""

from __future__ import annotations

import textwrap

from matplotlib.ticker import NullLocator

from fastqps.bench.report import wording
from fastqps.bench.report.ink import INK, Drawing
from fastqps.bench.report.plots.plot import Plot, line, name_rows, note_behind, shorten, time_axis
from fastqps.bench.report.points import rate_of, response_us, verdict_of
from fastqps.bench.results.point import Point
from fastqps.bench.results.result import Result

_BARS_MAX, _DIFFERENCES_MAX = 24, 40


def optimizations(result: Result) -> Plot | None:
    """Rate, p99 and duty cycle with each optimization of ``ablate``."""
    points = result.points[:_BARS_MAX]
    columns = [
        ("OK/s", "p50", [rate_of(point) for point in points], wording.rate),
        ("p99", "p99", [response_us(point, "p99") for point in points], wording.time),
        ("duty cycle", "device", [point.duty_cycle for point in points], wording.percent),
    ]
    columns = [column for column in columns if any(column[2])]
    if result.mode != "ablate" or not columns:
        return None
    with Drawing("optimizations", 60 + 30 * len(points), columns=len(columns)) as drawing:
        for panel, (title, ink, values, show) in zip(drawing.panels, columns, strict=True):
            lengths = [value or 0.0 for value in values]
            panel.barh(range(len(points)), lengths, color=INK[ink], height=0.62)
            for place, (length, value) in enumerate(zip(lengths, values, strict=True)):
                note_behind(panel, show(value), length, place)
            panel.set_xlim(0, 1.75 * max(lengths))
            panel.set_title(title)
            panel.xaxis.set_major_locator(NullLocator())
            panel.spines["bottom"].set_visible(False)
            panel.grid(visible=False)
            panel.tick_params(axis="y", length=0)
        name_rows(drawing.panels[0], list(map(_row_name, points)))
        rows = [
            ", ".join(f"{title} {show(values[k])}" for title, _, values, show in columns) for k in range(len(points))
        ]
        svg = drawing.svg("; ".join(f"{point.name}: {row}" for point, row in zip(points, rows, strict=True)) + ".")
    reading = (
        "Each row adds one optimization to the row above it, in the same run. One that raises the duty cycle lets the "
        "device work instead of waiting for the host; one that raises the rate alone makes the steps cheaper."
    )
    return Plot("optimizations", "One optimization after the other", svg, reading)


def _row_name(point: Point) -> str:
    """On two lines at most, the second with the verdict if that is in doubt."""
    verdict = verdict_of(point)
    doubt = [] if verdict == "VALID" else [verdict]
    lines = textwrap.wrap(wording.one_line(point.name), 24, max_lines=2 - len(doubt), placeholder=" …")
    return "\n".join([*lines, *doubt])


def differences(result: Result) -> Plot | None:
    """Each figure's relative difference between two results, with its interval."""
    rows = result.extra.get("differences", ())[:_DIFFERENCES_MAX]
    if not rows:
        return None
    with Drawing("differences", 80 + 30 * len(rows)) as drawing:
        panel = drawing.panels[0]
        panel.axvline(0, color=INK["faint"], linewidth=1)
        for place, row in enumerate(rows):
            value, ink = row["difference"], "p99" if row["significant"] else "faint"
            line(panel, [(end, place) for end in row["interval"]], ink, linewidth=2.4, solid_capstyle="butt")
            line(panel, [(value, place)], ink, "o", markersize=6)
            panel.annotate(wording.signed_percent(value), (value, place), xytext=(0, 6), textcoords="offset points",
                           ha="center", fontsize=9)  # fmt: skip
        reach = max(0.01, *(abs(end) for row in rows for end in row["interval"])) * 1.15
        panel.set_xlim(-reach, reach)
        panel.xaxis.set_major_formatter(lambda share, _: wording.signed_percent(share))
        panel.locator_params(axis="x", nbins=5)
        name_rows(panel, [shorten(wording.one_line(row["name"]), 24) for row in rows])
        panel.set_xlabel("b against a, with the 95 % interval")
        svg = drawing.svg("; ".join(f"{row['name']} {wording.signed_percent(row['difference'])}" for row in rows) + ".")
    reading = (
        "A bar that crosses zero (grey) is no significant change: the runs do not tell a and b apart. Coloured bars "
        "are differences that chance does not explain."
    )
    return Plot("differences", "b against a", svg, reading)


def calibration(result: Result) -> Plot | None:
    """Time of a step over its tokens: measured, and what the profile says."""
    found = result.extra.get("calibration")
    if found is None or len(found["steps"]) < 2:
        return None
    steps = found["steps"]
    with Drawing("calibration", 290) as drawing:
        panel = drawing.panels[0]
        line(panel, [(s["tokens"], s["us"]) for s in steps], "p50", "o", markersize=5, label="measured")
        line(panel, [(s["tokens"], s["fitted_us"]) for s in steps], "p99", "+", markersize=10, markeredgewidth=1.4,
             label="profile")  # fmt: skip
        panel.set_xscale("log", base=2)
        panel.xaxis.set_major_formatter(lambda n, _: f"{n:,.0f}")
        panel.set_xlabel("tokens in the step")
        time_axis(panel, [step[key] for step in steps for key in ("us", "fitted_us")], "step")
        drawing.legend(panel)
        worst = wording.percent(found["worst_deviation"])
        svg = drawing.svg(f"{len(steps)} shapes of steps; the profile is off by {worst} at most.")
    reading = (
        "Each circle is a shape of step on the device, each cross what the profile makes of it; several at the same "
        "number of tokens have different numbers of items. Crosses inside their circles are a profile that can stand "
        "in for the device."
    )
    return Plot("calibration", "Steps: measured, and as the profile has them", svg, reading)
