"""How far behind its plan the generator was: the evidence that the figures are the server's."""

from __future__ import annotations

from fastqps.bench.report import wording
from fastqps.bench.report.ink import INK, Drawing
from fastqps.bench.report.plots.plot import Plot, mark_doubt, shorten, time_axis
from fastqps.bench.report.reading import Json, number_at, points_of, response_us, text_at, verdict_at

_POINTS_MAX = 40


def lateness(result: Json) -> Plot | None:
    """Lateness of each open-loop point, beside what would make it INVALID."""
    points = [point for point in points_of(result) if text_at(point, "load", "loop") != "closed"]
    points = [point for point in points if number_at(point, "lateness_us", "p99") is not None][:_POINTS_MAX]
    if not points:
        return None
    places = list(range(len(points)))
    values = {name: [number_at(point, "lateness_us", name) for point in points] for name in ("p50", "p99")}
    values["own p99"] = [number_at(point, "generator", "own_lateness_us", "p99") for point in points]
    allowed = [max(1_000.0, 0.05 * (response_us(point, "p99") or 0.0)) for point in points]
    with Drawing(260) as drawing:
        panel = drawing.panels[0]
        for name, ink, marker in (("p50", "p50", "o"), ("p99", "p99", "o"), ("own p99", "p999", "D")):
            known = [(x, y) for x, y in zip(places, values[name], strict=True) if y]
            if known:
                panel.plot(*zip(*known, strict=True), marker, color=INK[ink], markersize=5, label=name)
        panel.plot(
            places, allowed, "_", color=INK["limit"], markersize=14, markeredgewidth=1.6, label="limit of own p99"
        )
        marked = [own or p99 for own, p99 in zip(values["own p99"], values["p99"], strict=True)]
        mark_doubt(panel, [p if verdict_at(p) == "INVALID" else {} for p in points], places, marked)
        time_axis(panel, [max(0.1, y) for line in values.values() for y in line if y] + allowed)
        panel.set_xlim(-0.6, len(points) - 0.4)
        many = len(points) > 4
        panel.set_xticks(places, [shorten(text_at(p, "name"), 18) for p in points])
        panel.tick_params(axis="x", labelrotation=45 if many else 0)
        if many:
            for label in panel.get_xticklabels():
                label.set_horizontalalignment("right")
        panel.grid(visible=False, axis="x")
        drawing.legend(panel)
        worst = max(value or 0.0 for value in values["p99"])
        svg = drawing.svg(f"The generator's p99 lateness is at most {wording.time(worst)}.", "lateness")
    reading = (
        "Lateness is how much later than planned a request was sent. It counts as latency where the server had let no "
        "stream become free; what the generator caused itself is its own. With its own p99 above the red mark the "
        "point is INVALID: it says more about the generator than about the server."
    )
    return Plot("lateness", "Generator lateness", svg, reading)
