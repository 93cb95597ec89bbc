"""The way of the tuner's search, and what it found for each setting."""

from __future__ import annotations

from statistics import median

from fastqps.bench.report import wording
from fastqps.bench.report.ink import INK, Drawing
from fastqps.bench.report.plots.plot import Plot, rate_axis, shorten
from fastqps.bench.report.reading import (
    Json,
    best_of,
    list_at,
    mapping_at,
    number_at,
    points_of,
    rate_at,
    setting_at,
    text_at,
    value_at,
    varied_settings,
)
from fastqps.bench.report.summary import breaks_slo


def search_path(result: Json) -> Plot | None:
    """Each decision of the search: the values that raced, every run of each, and the one that was kept."""
    rows = [
        (text_at(choice, "setting"), value, value_at(value, "value") == value_at(choice, "chosen"))
        for choice in list_at(result, "tune", "choices")[:_CHOICES_MAX]
        for value in list_at(choice, "values")
        if _rates(value)
    ]
    if not rows:
        return None
    places = list(range(len(rows)))
    top = max(rate for _, value, _ in rows for rate in _rates(value)) or 1.0  # nothing within the objective
    with Drawing(70 + 20 * len(rows)) as drawing:
        panel = drawing.panels[0]
        for place, (_, value, kept) in zip(places, rows, strict=True):
            rates = _rates(value)
            ink = INK["good"] if kept else INK["p50"]
            panel.plot(rates, [place] * len(rates), "o", color=ink, markersize=4.5, alpha=0.75, label=_OUTCOME[kept])
            panel.plot([median(rates)], [place], "|", color=ink, markersize=14, markeredgewidth=2)
        names = [f"{wording.words(name)} {wording.setting(value_at(value, 'value'))}" for name, value, _ in rows]
        panel.set_yticks(places, [shorten(name, 30) for name in names])
        for label, (_, _, kept) in zip(panel.get_yticklabels(), rows, strict=True):
            label.set_fontweight("bold" if kept else "normal")
        for place in places[1:]:
            if rows[place][0] != rows[place - 1][0]:
                panel.axhline(place - 0.5, color=INK["faint"], linewidth=0.8)
        panel.set_ylim(len(rows) - 0.5, -0.5)
        rate_axis(panel, "OK per second" + ("; 0: not within the objective" if mapping_at(result, "slo") else ""))
        panel.set_xlim(-0.03 * top, top * 1.08)
        drawing.legend(panel)
        kept_names = [name for name, (_, _, kept) in zip(names, rows, strict=True) if kept]
        svg = drawing.svg(f"Decisions in turn: {'; '.join(kept_names)}.", "search")
    reading = (
        "From top to bottom: one setting after the other, all its values raced against each other in turn, the others "
        "held. Each dot is a run, the bar their median. Of values that cannot be told apart the simplest is kept, so "
        "the choice need not be the highest."
    )
    return Plot("search", "The search, decision by decision", svg, reading)


_CHOICES_MAX = 12
_OUTCOME = {True: "kept", False: "tried"}


def _rates(value: object) -> list[float]:
    return [rate for entry in list_at(value, "rates") if (rate := number_at({"rate": entry}, "rate")) is not None]


def explored_grid(result: Json) -> Plot | None:
    """Rate and duty cycle for each pair of two settings that vary, most often dispatchers × lanes."""
    points = [point for point in points_of(result) if rate_at(point) is not None]
    names = varied_settings(points)
    names.sort(key=lambda name: name not in ("dispatchers", "lanes"))
    if text_at(result, "mode") != "tune" or len(names) < 2:
        return None
    across, down = names[:2]
    best = best_of(result) or {}
    cells = _cells(points, best, across, down)
    xs, ys = (sorted({pair[k] for pair in cells}, key=_numeric) for k in (0, 1))
    top = max(rate_at(point) or 0.0 for point in cells.values()) or 1.0
    with Drawing(90 + 50 * len(ys)) as drawing:
        panel = drawing.panels[0]
        for pair, point in cells.items():
            x, y, rate = xs.index(pair[0]), ys.index(pair[1]), rate_at(point) or 0.0
            panel.bar(x, 0.94, 0.96, y - 0.47, color=INK["p50"], alpha=0.08 + 0.5 * max(0.0, rate / top) ** 3)
            panel.annotate(
                _cell_text(result, point),
                (x, y),
                ha="center",
                va="center",
                fontsize=9,
                fontweight="bold" if point is best else "normal",
            )
            if point is best:
                panel.bar(x, 0.94, 0.96, y - 0.47, fill=False, edgecolor=INK["good"], linewidth=2)
        panel.set_xticks(range(len(xs)), [x or "default" for x in xs])
        panel.set_yticks(range(len(ys)), [y or "default" for y in ys])
        panel.set_xlabel(wording.words(across))
        panel.set_ylabel(wording.words(down))
        panel.grid(visible=False)
        told = (f"{across} {a}, {down} {d}: {wording.rate(rate_at(point))}" for (a, d), point in cells.items())
        svg = drawing.svg(f"{'; '.join(told)}.", "grid")
    reading = (
        "Each cell is one pair of settings: the rate, and below it the duty cycle. The other settings have the chosen "
        "values, or where that was not tried those that did best. The stronger the colour, the faster; the frame is "
        "the choice, empty cells were not tried."
    )
    return Plot("grid", f"{wording.words(across).capitalize()} × {wording.words(down)}", svg, reading)


def _cells(points: list[Json], best: Json, across: str, down: str) -> dict[tuple[str, str], Json]:
    """One point for each pair of values: the one that otherwise is like the best, else the fastest."""

    def others(point: Json) -> dict[str, object]:
        return {name: value for name, value in mapping_at(point, "settings").items() if name not in (across, down)}

    cells: dict[tuple[str, str], Json] = {}
    for point in sorted(points, key=lambda point: (others(point) == others(best), rate_at(point) or 0.0)):
        cells[setting_at(point, across), setting_at(point, down)] = point
    return cells


def _cell_text(result: Json, point: Json) -> str:
    lines = [wording.rate(rate_at(point))]
    duty = number_at(point, "duty_cycle")
    if duty is not None:
        lines.append(wording.percent(duty))
    if breaks_slo(result, point):
        lines.append("not within")
    return "\n".join(lines)


def _numeric(text: str) -> tuple[int, float, str]:
    try:
        return (0, float(text), text)
    except ValueError:
        return (1, 0.0, text)
