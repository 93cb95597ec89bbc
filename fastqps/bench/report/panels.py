"""Parts that plots share: stacked bars, axes of times and rates, limits, marks of points in doubt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, PercentFormatter

from fastqps.bench.report import wording
from fastqps.bench.report.points import verdict_of
from fastqps.bench.results.point import Point
from fastqps.bench.results.result import Result

_BARS_MAX = 32
# Stages and reasons to idle: reception is blue, waiting amber, preparation green, the device orange, the answer purple.
_COLOURS = {
    "receive": "#a9c9f3",
    "parse": "#6ea1e4",
    "tokenize": "#2f6fd0",
    "queue": "#e3b23c",
    "gather": "#8fd0ab",
    "launch": "#3f9b6c",
    "device": "#e0761f",
    "scatter": "#d3b3e4",
    "drain": "#ab78c6",
    "send": "#7f489a",
    "wire": "#9aa5b1",
    "no_work": "#d5dbe1",
    "batch_delay": "#e3b23c",
    "shared": "#b7c9dd",
}
_OTHER = "#b08968"


def stack(figure: Figure, rows: Sequence[tuple[str, Mapping[str, float]]]) -> None:
    """Stacked bars of shares, by part."""
    if not (bars := rows[:_BARS_MAX]):
        return
    figure.set_figheight(1.1 + 0.28 * len(bars))
    panel, ends = figure.subplots(), [0.0] * len(bars)
    for part in dict.fromkeys(part for _, shares in bars for part in shares):
        widths = [shares.get(part, 0.0) for _, shares in bars]
        if any(widths):
            panel.barh(
                range(len(bars)), widths, left=ends, color=_COLOURS.get(part, _OTHER), label=wording.spaced(part)
            )
            ends = [end + width for end, width in zip(ends, widths, strict=True)]
    panel.set_yticks(range(len(bars)), [wording.one_line(name) for name, _ in bars])
    panel.invert_yaxis()
    panel.grid(visible=False, axis="y")
    panel.xaxis.set_major_formatter(PercentFormatter(1))
    panel.set_xlim(0, 1)
    figure.legend(loc="outside upper left", ncols=5)


def mark_doubt(panel: Axes, points: Sequence[Point], xs: Sequence[float], ys: Sequence[float]) -> None:
    """A cross over each INVALID point and a ring around each UNSTABLE one."""
    for verdict, marker in (("INVALID", "x"), ("UNSTABLE", "o")):
        at = [(x, y) for point, x, y in zip(points, xs, ys, strict=True) if verdict_of(point) == verdict and y > 0]
        if at:
            panel.plot(*zip(*at, strict=True), marker, color="tab:red", markersize=9, fillstyle="none", label=verdict)


def limits(panel: Axes, result: Result) -> None:
    """A line at each latency that the SLO limits."""
    for name, us in (result.slo or {}).items():
        if name.endswith("_us") and us > 0:
            label = f"SLO {wording.statistic(name[:-3])} ≤ {wording.limit(us)}"
            panel.axhline(us, color="tab:red", linestyle="--", linewidth=1, label=label)


def time_axis(panel: Axes, label: str) -> None:
    """A logarithmic axis of microseconds, labelled as 1 ms, 10 ms; and the legend."""
    panel.set_yscale("log")
    panel.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda us, _: wording.limit(us)))
    panel.minorticks_off()
    panel.margins(y=0.2)  # room for the legend
    panel.set_ylabel(label)
    panel.legend(loc="best", ncols=2)


def load_axis(panel: Axes) -> None:
    """Offered rates; and the legend."""
    panel.set_xlim(left=0)
    panel.xaxis.set_major_formatter(EngFormatter(sep=""))
    panel.set_xlabel("offered requests per second")
    panel.legend(loc="best", ncols=2)
