"""What became of the offered load: goodput, and everything else that was answered, refused, late or failed."""

from __future__ import annotations

from matplotlib.axes import Axes

from fastqps.bench.report import wording
from fastqps.bench.report.ink import INK, Drawing
from fastqps.bench.report.plots.latency import points_by_load, style_of
from fastqps.bench.report.plots.plot import Plot, bar_name, mark_doubt, rate_axis, share_axis
from fastqps.bench.report.reading import Json, answers_by_fate, number_at, rate_at


def goodput_by_load(result: Json) -> Plot | None:
    """OK answers within the SLO over the offered rate, beside the line of a server that answers everything."""
    points = [point for point in points_by_load(result) if rate_at(point) is not None]
    if not points:
        return None
    offered = [number_at(point, "offered_rate") or 0.0 for point in points]
    answered = [rate_at(point) for point in points]
    goodput = [number_at(point, "goodput") for point in points]
    has_goodput = any(value is not None for value in goodput)
    with Drawing(290) as drawing:
        panel = drawing.panels[0]
        top = max(offered)
        panel.plot([0, top], [0, top], color=INK["faint"], linestyle=(0, (2, 2)), linewidth=1.2, label="ideal")
        _line(panel, offered, answered, style_of(result), "answered OK", "p50")
        if has_goodput:
            _line(panel, offered, goodput, style_of(result), "goodput", "good")
        mark_doubt(panel, points, offered, goodput if has_goodput else answered)
        rate_axis(panel, "offered requests per second")
        rate_axis(panel, "per second", of_y=True)
        drawing.legend(panel)
        shown = goodput if has_goodput else answered
        alt = (
            f"{'Goodput' if has_goodput else 'Answers'} at {wording.rate(offered[-1])} offered: "
            f"{wording.rate(shown[-1])}; most: {wording.rate(max(value or 0.0 for value in shown))}."
        )
        svg = drawing.svg(alt, "goodput")
    reading = (
        "On the dotted line everything offered is answered in time. A good server leaves it at its capacity and stays "
        "level beyond; a curve that falls says that overload costs work that is then thrown away."
    )
    return Plot("goodput", "Goodput against offered load", svg, reading)


def _line(panel: Axes, xs: list[float], ys: list[float | None], style: str, label: str, ink: str) -> None:
    known = [(x, y) for x, y in zip(xs, ys, strict=True) if y is not None]
    if known:
        panel.plot(*zip(*known, strict=True), style, color=INK[ink], markersize=3.5, label=label)


_FATES = {"in time": "good", "OK, but late": "p90", "refused": "queue", "expired": "p999", "failed": "bad"}


def fates_by_load(result: Json) -> Plot | None:
    """Shares of the calls at each load, if any were not answered OK in time."""
    rows = [(point, _shares(point)) for point in points_by_load(result)]
    rows = [(point, shares) for point, shares in rows if shares]
    if not any(shares[fate] > 0.0005 for _, shares in rows for fate in list(_FATES)[1:]):
        return None
    with Drawing(80 + 26 * len(rows)) as drawing:
        panel = drawing.panels[0]
        names = [bar_name(result, point, 18) for point, _ in rows]
        places = list(range(len(rows)))
        left = [0.0] * len(rows)
        for fate, ink in _FATES.items():
            widths = [shares[fate] for _, shares in rows]
            if any(widths):
                panel.barh(places, widths, left=left, color=INK[ink], label=fate, height=0.7)
            left = [a + b for a, b in zip(left, widths, strict=True)]
        panel.set_yticks(places, names)
        panel.invert_yaxis()
        panel.grid(visible=False, axis="y")
        share_axis(panel)
        drawing.legend(panel)
        worst = rows[-1][1]
        alt = f"At the highest load: {', '.join(f'{fate} {wording.percent(s)}' for fate, s in worst.items() if s > 0)}."
        svg = drawing.svg(alt, "fates")
    reading = (
        "Refusing early (RESOURCE_EXHAUSTED, with a hint when to come back) is what keeps the rest in time; expired "
        "calls waited for nothing, failed ones are errors."
    )
    return Plot("fates", "What became of the calls", svg, reading)


def _shares(point: Json) -> dict[str, float]:
    """By fate, of all calls. Without a goodput every OK answer counts as in time."""
    fates = answers_by_fate(point)
    total = sum(fates.values())
    if total <= 0:
        return {}
    rate, goodput = rate_at(point), number_at(point, "goodput")
    late = max(0.0, 1 - goodput / rate) if rate and goodput is not None else 0.0
    ok = fates["ok"] / total
    rest = {fate: fates[fate] / total for fate in ("refused", "expired", "failed")}
    return {"in time": ok * (1 - late), "OK, but late": ok * late} | rest
