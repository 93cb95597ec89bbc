"""Differences between two runs, with what is known of them."""

from __future__ import annotations

from fastqps.bench.report import wording
from fastqps.bench.report.ink import INK, Drawing
from fastqps.bench.report.plots.plot import Plot, shorten
from fastqps.bench.report.reading import Json, interval_at, list_at, number_at, text_at

_ROWS_MAX = 40


def differences(result: Json) -> Plot | None:
    """Each figure's relative difference with its interval."""
    rows = [entry for entry in list_at(result, "differences") if number_at(entry, "difference") is not None][:_ROWS_MAX]
    if not rows:
        return None
    values = [number_at(row, "difference") or 0.0 for row in rows]
    intervals = [interval_at(row, "interval") or (value, value) for row, value in zip(rows, values, strict=True)]
    places = list(range(len(rows)))
    with Drawing(80 + 30 * len(rows)) as drawing:
        panel = drawing.panels[0]
        panel.axvline(0, color=INK["faint"], linewidth=1)
        for place, row, value, (low, high) in zip(places, rows, values, intervals, strict=True):
            ink = INK["p99"] if row.get("significant") else INK["faint"]
            panel.plot([low, high], [place, place], color=ink, linewidth=2.4, solid_capstyle="butt")
            panel.plot([value], [place], "o", color=ink, markersize=6)
            panel.annotate(
                wording.signed_percent(value),
                (value, place),
                xytext=(0, 6),
                textcoords="offset points",
                ha="center",
                fontsize=9,
            )
        reach = max(0.01, *(abs(end) for interval in intervals for end in interval)) * 1.15
        panel.set_xlim(-reach, reach)
        panel.set_ylim(len(rows) - 0.5, -0.7)
        panel.xaxis.set_major_formatter(lambda share, _: wording.signed_percent(share))
        panel.locator_params(axis="x", nbins=5)
        panel.set_yticks(places, [shorten(text_at(row, "name"), 24) for row in rows])
        panel.grid(visible=False, axis="y")
        panel.set_xlabel("b against a, with the 95 % interval")
        alt = "; ".join(f"{text_at(r, 'name')} {wording.signed_percent(v)}" for r, v in zip(rows, values, strict=True))
        svg = drawing.svg(f"{alt}.", "differences")
    reading = (
        "A bar that crosses zero (grey) is no significant change: the runs do not tell a and b apart. Coloured bars "
        "are differences that chance does not explain."
    )
    return Plot("differences", "b against a", svg, reading)
