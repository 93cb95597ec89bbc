"""The course of the tuner's search, and what it found for each pair of settings."""

from __future__ import annotations

from statistics import median

from fastqps.bench.report import wording
from fastqps.bench.report.ink import INK, Drawing
from fastqps.bench.report.plots.plot import Plot, line, name_rows, rate_axis, shorten
from fastqps.bench.report.points import setting_of, varied_settings
from fastqps.bench.report.summary import breaks_slo
from fastqps.bench.results.point import Point
from fastqps.bench.results.result import Result

_CHOICES_MAX = 12


def search_path(result: Result) -> Plot | None:
    """Each decision of the search: the values that raced, every run of each, and the one that was kept."""
    rows = [
        (choice["setting"], value["value"], rates, value["value"] == choice["chosen"])
        for choice in result.extra.get("tune", {}).get("choices", ())[:_CHOICES_MAX]
        for value in choice["values"]
        if (rates := [rate for rate in value["rates"] if rate is not None])
    ]
    if not rows:
        return None
    names = [wording.one_line(f"{wording.words(setting)} {wording.setting(value)}") for setting, value, _, _ in rows]
    with Drawing("search", 70 + 20 * len(rows)) as drawing:
        panel = drawing.panels[0]
        for place, (setting, _, rates, kept) in enumerate(rows):
            ink, label = ("good", "kept") if kept else ("p50", "tried")
            line(panel, [(rate, place) for rate in rates], ink, "o", markersize=4.5, alpha=0.75, label=label)
            line(panel, [(median(rates), place)], ink, "|", markersize=14, markeredgewidth=2)
            if place and setting != rows[place - 1][0]:
                panel.axhline(place - 0.5, color=INK["faint"], linewidth=0.8)
        name_rows(panel, [shorten(name, 30) for name in names])
        for name, (*_, kept) in zip(panel.get_yticklabels(), rows, strict=True):
            name.set_fontweight("bold" if kept else "normal")
        rate_axis(panel, "OK per second" + ("; 0: not within the objective" if result.slo else ""))
        top = max(rate for _, _, rates, _ in rows for rate in rates) or 1.0  # nothing within the objective
        panel.set_xlim(-0.03 * top, top * 1.08)
        drawing.legend(panel)
        kept_names = [name for name, (*_, kept) in zip(names, rows, strict=True) if kept]
        svg = drawing.svg(f"Decisions in turn: {'; '.join(kept_names)}.")
    reading = (
        "From top to bottom: one setting after the other, all its values raced against each other in turn, the others "
        "held. Each dot is a run, the bar their median. Of values that cannot be told apart the simplest is kept, so "
        "the choice need not be the highest."
    )
    return Plot("search", "The search, decision by decision", svg, reading)


def explored_grid(result: Result) -> Plot | None:
    """Rate and duty cycle for each pair of two settings that vary, most often dispatchers × lanes."""
    points = [point for point in result.points if not point.missing]
    names = sorted(varied_settings(points), key=lambda name: name not in ("dispatchers", "lanes"))
    if result.mode != "tune" or len(names) < 2:
        return None
    across, down = names[:2]
    best = result.best_point
    cells = _cells(points, best, across, down)
    xs, ys = (sorted({pair[k] for pair in cells}, key=_numeric) for k in (0, 1))
    top = max(point.rate for point in cells.values()) or 1.0
    with Drawing("grid", 90 + 50 * len(ys)) as drawing:
        panel = drawing.panels[0]
        for pair, point in cells.items():
            x, y, chosen = xs.index(pair[0]), ys.index(pair[1]), point is best
            panel.bar(x, 0.94, 0.96, y - 0.47, color=INK["p50"], alpha=0.08 + 0.5 * max(0.0, point.rate / top) ** 3)
            panel.annotate(_cell_text(result, point), (x, y), ha="center", va="center", fontsize=9,
                           fontweight="bold" if chosen else "normal")  # fmt: skip
            if chosen:
                panel.bar(x, 0.94, 0.96, y - 0.47, fill=False, edgecolor=INK["good"], linewidth=2)
        panel.set_xticks(range(len(xs)), [x or "default" for x in xs])
        panel.set_yticks(range(len(ys)), [y or "default" for y in ys])
        panel.set_xlabel(wording.words(across))
        panel.set_ylabel(wording.words(down))
        panel.grid(visible=False)
        told = (f"{across} {a}, {down} {d}: {wording.rate(point.rate)}" for (a, d), point in cells.items())
        svg = drawing.svg(f"{'; '.join(told)}.")
    reading = (
        "Each cell is one pair of settings: the rate, and below it the duty cycle. The other settings have the chosen "
        "values, or where that was not tried those that did best. The stronger the colour, the faster; the frame is "
        "the choice, empty cells were not tried."
    )
    return Plot("grid", f"{wording.words(across).capitalize()} × {wording.words(down)}", svg, reading)


def _cells(points: list[Point], best: Point | None, across: str, down: str) -> dict[tuple[str, str], Point]:
    """One point for each pair of values: the one that otherwise is like the best, else the fastest."""

    def others(point: Point | None) -> dict[str, object]:
        return {name: value for name, value in (point.settings if point else {}).items() if name not in (across, down)}

    ordered = sorted(points, key=lambda point: (others(point) == others(best), point.rate))
    return {(setting_of(point, across), setting_of(point, down)): point for point in ordered}


def _cell_text(result: Result, point: Point) -> str:
    lines = [wording.rate(point.rate)]
    if point.duty_cycle is not None:
        lines.append(wording.percent(point.duty_cycle))
    if breaks_slo(result, point):
        lines.append("not within")
    return "\n".join(lines)


def _numeric(text: str) -> tuple[int, float, str]:
    try:
        return (0, float(text), text)
    except ValueError:
        return (1, 0.0, text)
