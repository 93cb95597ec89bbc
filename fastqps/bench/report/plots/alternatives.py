"""Plots of the modes that compare: two results, a device and its profile."""

from __future__ import annotations

from fastqps.bench.report import wording
from fastqps.bench.report.ink import INK, Drawing
from fastqps.bench.report.plots.plot import Plot, line, name_rows, shorten, time_axis
from fastqps.bench.results.result import Result

_DIFFERENCES_MAX = 40


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
