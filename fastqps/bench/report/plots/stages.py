"""Where the time of a request goes, stage by stage."""

from __future__ import annotations

from fastqps.bench.report import wording
from fastqps.bench.report.ink import Drawing
from fastqps.bench.report.plots.plot import Plot, bar_name, share_axis, stage_ink
from fastqps.bench.report.reading import Json, points_of, text_at
from fastqps.bench.report.stages import stage_means, stage_names, stage_shares
from fastqps.bench.report.summary import main_point

_POINTS_MAX = 24


def stage_shares_plot(result: Json) -> Plot | None:
    """Each stage's share of the end-to-end time, one bar for each point that knows its stages."""
    rows = _rows(result)
    if not rows:
        return None
    svg = _bars(rows, "stage-shares", as_shares=True)
    reading = (
        "Orange is the device, grey (wire) what the client saw beyond the server's own stamps: the network, both "
        "kernels and the client itself. Yellow waits for the device; a queue that takes over is load beyond "
        "what the device gets through. Everything else is the host's own work."
    )
    return Plot("stage-shares", "Where the time goes: share of end to end", svg, reading)


def stage_times_plot(result: Json) -> Plot | None:
    """The same in microseconds."""
    rows = _rows(result)
    if not rows:
        return None
    reading = "The same bars in absolute time; the figure behind each is the mean end-to-end time."
    return Plot("stage-times", "Where the time goes: mean times", _bars(rows, "stage-times", as_shares=False), reading)


def _rows(result: Json) -> list[tuple[str, dict[str, float]]]:
    points = [main_point(result)] if text_at(result, "mode") == "tune" else points_of(result)
    rows = [(bar_name(result, point, 22), stage_means(point)) for point in points]
    return [(name, means) for name, means in rows if sum(means.values()) > 0][:_POINTS_MAX]


def _bars(rows: list[tuple[str, dict[str, float]]], key: str, *, as_shares: bool) -> str:
    totals = [sum(means.values()) for _, means in rows]
    places = list(range(len(rows)))
    with Drawing(110 + 26 * len(rows)) as drawing:
        panel = drawing.panels[0]
        left = [0.0] * len(rows)
        for stage in stage_names([means for _, means in rows]):
            scale = totals if as_shares else [1.0] * len(rows)
            widths = [means.get(stage, 0.0) / size for (_, means), size in zip(rows, scale, strict=True)]
            panel.barh(places, widths, left=left, color=stage_ink(stage), label=stage, height=0.72)
            left = [a + b for a, b in zip(left, widths, strict=True)]
        for place, (_, means), total in zip(places, rows, totals, strict=True):
            note = (
                f" device {wording.percent(means.get('device', 0.0) / total)}"
                if as_shares
                else f" {wording.time(total)}"
            )
            panel.annotate(note, (left[place], place), va="center", fontsize=9)
        if as_shares:
            share_axis(panel, high=1.28)
            panel.set_xticks([0, 0.25, 0.5, 0.75, 1.0])
        else:
            panel.set_xlim(0, max(totals) * 1.2)
            panel.xaxis.set_major_formatter(lambda us, _: wording.limit(us))
            panel.locator_params(axis="x", nbins=5)
        panel.set_yticks(places, [name for name, _ in rows])
        panel.invert_yaxis()
        panel.grid(visible=False, axis="y")
        drawing.legend(panel)
        return drawing.svg(_alt(rows), key)


def _alt(rows: list[tuple[str, dict[str, float]]]) -> str:
    sentences = []
    for name, means in rows:
        shares = stage_shares(means)
        parts = ", ".join(f"{part} {wording.percent(share)}" for part, share in shares.items())
        sentences.append(f"{name}: {wording.time(sum(means.values()))}, of it {parts}")
    return "; ".join(sentences) + "."
