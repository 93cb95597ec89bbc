"""The plot of a device and its profile."""

from __future__ import annotations

from fastqps.bench.report import wording
from fastqps.bench.report.ink import Drawing
from fastqps.bench.report.plots.plot import Plot, line, time_axis
from fastqps.bench.results.result import Result


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
