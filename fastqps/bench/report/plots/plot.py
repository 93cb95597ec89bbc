"""One plot of a report, and the parts that plots share: lines, stacked bars, axes, markers for points in doubt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from fastqps.bench.report import wording
from fastqps.bench.report.ink import INK, Drawing
from fastqps.bench.report.points import name_of, verdict_of
from fastqps.bench.report.summary import severity
from fastqps.bench.results.point import Point
from fastqps.bench.results.result import Result

Bars = Sequence[tuple[str, Mapping[str, float]]]  # (name, lengths by part) of each bar, the first part innermost


@dataclass(frozen=True)
class Plot:
    """A heading, the figure as ``<svg>``, and a sentence on how to read it. ``key`` is unique in a page."""

    key: str
    title: str
    svg: str
    reading: str


def line(panel: Axes, points: Iterable[tuple[Any, Any]], ink: str, style: str = "-", **more: Any) -> None:
    """Draws the points that have both numbers, if there are any."""
    known = [(x, y) for x, y in points if x is not None and y is not None]
    if known:
        panel.plot(*zip(*known, strict=True), style, color=INK[ink], **more)


def stacked_bars(
    key: str, bars: Bars, alt: str, *, inks: Mapping[str, str] | None = None, labels: Mapping[str, str] | None = None,
    notes: Sequence[str] = (), high: float = 1.0, times: bool = False,
) -> str:  # fmt: skip
    """Horizontal bars of parts, as SVG: shares of 1 up to ``high``, or times in µs. ``notes`` stand behind the bars."""
    parts = list(dict.fromkeys(part for _, lengths in bars for part in lengths))
    places, ends = list(range(len(bars))), [0.0] * len(bars)
    with Drawing(key, 95 + 26 * len(bars)) as drawing:
        panel = drawing.panels[0]
        for part in parts:
            lengths = [max(0.0, one.get(part, 0.0)) for _, one in bars]
            ink = (inks or {}).get(part, part)
            colour, label = INK.get(ink, INK["other"]), (labels or {}).get(part, part)
            panel.barh(places, lengths, left=ends, color=colour, label=label, height=0.72)
            ends = [end + length for end, length in zip(ends, lengths, strict=True)]
        for place, note in enumerate(notes):
            note_behind(panel, note, ends[place] if times else max(1.0, ends[place]), place)
        if times:
            panel.set_xlim(0, 1.2 * max(ends))
            panel.xaxis.set_major_formatter(lambda us, _: wording.limit(us))
            panel.locator_params(axis="x", nbins=5)
        else:
            share_axis(panel, high=high)
            panel.set_xticks([0, 0.25, 0.5, 0.75, 1.0])
        name_rows(panel, [name for name, _ in bars])
        drawing.legend(panel)
        return drawing.svg(alt)


def note_behind(panel: Axes, note: str, end: float, place: int) -> None:
    """A note behind the end of a bar."""
    panel.annotate(note, (end, place), xytext=(4, 0), textcoords="offset points", va="center", fontsize=9)


def name_rows(panel: Axes, names: Sequence[str]) -> None:
    """Rows from top to bottom."""
    panel.set_yticks(range(len(names)), names)
    panel.set_ylim(len(names) - 0.5, -0.6)
    panel.grid(visible=False, axis="y")


def time_axis(panel: Axes, values_us: Iterable[float | None], label: str = "") -> None:
    """A logarithmic y axis of microseconds around these values, with ticks as 1 ms, 10 ms. Without values: no axis."""
    known = [us for us in values_us if us and us > 0]
    if not known:
        return
    panel.set_yscale("log")
    low, high = min(known), max(known)
    panel.set_ylim(low / 1.5, high * 1.5)
    panel.yaxis.set_major_locator(LogLocator(subs=(1.0,) if high / low > 60 else (1.0, 2.0, 5.0), numticks=12))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda us, _: wording.limit(us) if us > 0 else ""))
    panel.yaxis.set_minor_formatter(NullFormatter())
    panel.set_ylabel(label)


def rate_axis(panel: Axes, label: str, *, of_y: bool = False) -> None:
    """Rates from 0, with thousands as k."""
    axis = panel.yaxis if of_y else panel.xaxis
    axis.set_major_formatter(FuncFormatter(lambda rate, _: short_rate(rate)))
    axis.set_major_locator(MaxNLocator(6, min_n_ticks=3))
    panel.set_ylim(bottom=0) if of_y else panel.set_xlim(left=0)
    axis.set_label_text(label)


def share_axis(panel: Axes, *, of_y: bool = False, high: float = 1.0) -> None:
    """Shares from 0 to ``high``, as per cent."""
    axis = panel.yaxis if of_y else panel.xaxis
    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.0f} %"))
    axis.set_major_locator(MaxNLocator(5))
    panel.set_ylim(0, high) if of_y else panel.set_xlim(0, high)


def short_rate(rate: float) -> str:
    """1.2k, 450, 1.5M."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if abs(rate) >= size:
            return f"{rate / size:.4g}{unit}"
    return f"{rate:.4g}"


def mark_doubt(panel: Axes, points: Sequence[Point], xs: Sequence[float], ys: Sequence[float | None]) -> None:
    """A cross over each INVALID point and a ring around each UNSTABLE one, explained in the legend."""
    for verdict, marker in (("INVALID", "x"), ("UNSTABLE", "o")):
        at = [(x, y) for point, x, y in zip(points, xs, ys, strict=True) if verdict_of(point) == verdict and y]
        line(panel, at, severity(verdict), marker, markersize=9, fillstyle="none", markeredgewidth=1.6, label=verdict,
             zorder=5)  # fmt: skip


def slo_lines(panel: Axes, result: Result) -> list[float]:
    """A dashed line at each latency that the SLO limits; those latencies in µs."""
    limits = {name[:-3]: us for name, us in (result.slo or {}).items() if name.endswith("_us") and us > 0}
    for statistic, limit_us in limits.items():
        panel.axhline(limit_us, color=INK["limit"], linestyle=(0, (5, 3)), linewidth=1.2)
        text = f"SLO {wording.statistic(statistic)} ≤ {wording.limit(limit_us)}"
        panel.annotate(text, (0.01, limit_us), xycoords=("axes fraction", "data"), xytext=(0, 3),
                       textcoords="offset points", color=INK["limit"], fontsize=9)  # fmt: skip
    return list(limits.values())


def bar_name(result: Result, point: Point, length: int) -> str:
    """The label of a point's bar: its name, with its verdict if that is in doubt."""
    name, verdict = shorten(name_of(result, point), length), verdict_of(point)
    return name if verdict == "VALID" else f"{name} {verdict}"


def at(result: Result, point: Point) -> str:
    """ " at NAME", for a heading."""
    return f" at {name}" if (name := name_of(result, point)) else ""


def shorten(name: str, length: int = 34) -> str:
    return name if len(name) <= length else name[: length - 1] + "…"
