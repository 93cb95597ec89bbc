"""How well a profile describes the device that it was measured on."""

from __future__ import annotations

from fastqps.bench.report import wording
from fastqps.bench.report.ink import INK, Drawing
from fastqps.bench.report.plots.plot import Plot, time_axis
from fastqps.bench.report.reading import Json, list_at, number_at, numbers_at


def calibration(result: Json) -> Plot | None:
    """Time of a step over its tokens: measured, and what the profile says."""
    rows = [numbers_at(step) for step in list_at(result, "calibration", "steps")]
    rows = [row for row in rows if row.get("tokens", 0) > 0 and "us" in row and "fitted_us" in row]
    if len(rows) < 2:
        return None
    tokens, measured, fitted = ([row[name] for row in rows] for name in ("tokens", "us", "fitted_us"))
    with Drawing(290) as drawing:
        panel = drawing.panels[0]
        panel.plot(tokens, measured, "o", color=INK["p50"], markersize=5, label="measured")
        panel.plot(tokens, fitted, "+", color=INK["p99"], markersize=10, markeredgewidth=1.4, label="profile")
        panel.set_xscale("log", base=2)
        panel.xaxis.set_major_formatter(lambda n, _: f"{n:,.0f}")
        panel.set_xlabel("tokens in the step")
        time_axis(panel, [*measured, *fitted], "step")
        drawing.legend(panel)
        worst = wording.percent(number_at(result, "calibration", "worst_deviation"))
        svg = drawing.svg(f"{len(rows)} shapes of steps; the profile is off by {worst} at most.", "calibration")
    reading = (
        "Each circle is a shape of step on the device, each cross what the profile makes of it; several at the same "
        "number of tokens have different numbers of items. Crosses inside their circles are a profile that can stand "
        "in for the device."
    )
    return Plot("calibration", "Steps: measured, and as the profile has them", svg, reading)
