"""One plot of a report, and what the plots have in common: axes of time and of rates, markers for points in doubt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from fastqps.bench.report import wording
from fastqps.bench.report.ink import INK
from fastqps.bench.report.reading import Json, name_at, numbers_at, verdict_at
from fastqps.bench.report.summary import severity


@dataclass(frozen=True)
class Plot:
    """What the page shows: a heading, the figure as ``<svg>``, and a sentence on how to read it.

    ``key`` is unique among the plots of a page.
    """

    key: str
    title: str
    svg: str
    reading: str


def time_axis(panel: Axes, values_us: Sequence[float], label: str = "") -> None:
    """A logarithmic y axis of microseconds around these values, with ticks as 1 ms, 10 ms. None of them: no axis."""
    values_us = [us for us in values_us if us > 0]
    if not values_us:
        return
    panel.set_yscale("log")
    low, high = min(values_us), max(values_us)
    panel.set_ylim(low / 1.5, high * 1.5)
    wide = high / low > 60
    panel.yaxis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0), numticks=12))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda us, _: wording.limit(us) if us > 0 else ""))
    panel.yaxis.set_minor_formatter(NullFormatter())
    panel.set_ylabel(label)


def rate_axis(panel: Axes, label: str, *, of_y: bool = False) -> None:
    """Rates from 0, with thousands as k."""
    axis = panel.yaxis if of_y else panel.xaxis
    axis.set_major_formatter(FuncFormatter(lambda rate, _: short_rate(rate)))
    axis.set_major_locator(MaxNLocator(6, min_n_ticks=3))
    if of_y:
        panel.set_ylim(bottom=0)
        panel.set_ylabel(label)
    else:
        panel.set_xlim(left=0)
        panel.set_xlabel(label)


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


def is_sound(point: Json) -> bool:
    """True if its figures may be read as the server's in a steady state."""
    return verdict_at(point) in ("VALID", "")


def mark_doubt(panel: Axes, points: Sequence[Json], xs: Sequence[float], ys: Sequence[float | None]) -> None:
    """A cross over each INVALID point and a ring around each UNSTABLE one, explained in the legend."""
    for verdict, marker in (("INVALID", "x"), ("UNSTABLE", "o")):
        at = [(x, y) for point, x, y in zip(points, xs, ys, strict=True) if verdict_at(point) == verdict and y]
        if at:
            panel.plot(
                *zip(*at, strict=True),
                marker,
                color=INK[severity(verdict)],
                markersize=9,
                fillstyle="none",
                markeredgewidth=1.6,
                label=verdict,
                zorder=5,
            )


def slo_lines(panel: Axes, result: Json) -> list[float]:
    """A dashed line at each latency that the SLO limits; those latencies in µs."""
    limits = {name[:-3]: us for name, us in numbers_at(result, "slo").items() if name.endswith("_us") and us > 0}
    for statistic, limit_us in limits.items():
        panel.axhline(limit_us, color=INK["limit"], linestyle=(0, (5, 3)), linewidth=1.2)
        panel.annotate(
            f"SLO {wording.statistic(statistic)} ≤ {wording.limit(limit_us)}",
            (0.01, limit_us),
            xycoords=("axes fraction", "data"),
            xytext=(0, 3),
            textcoords="offset points",
            color=INK["limit"],
            fontsize=9,
        )
    return list(limits.values())


def bar_name(result: Json, point: Json, length: int) -> str:
    """What a point is called beside a bar, with its verdict if it is in doubt."""
    name = shorten(name_at(result, point), length)
    return name if is_sound(point) else f"{name} {verdict_at(point)}"


def shorten(name: str, length: int = 34) -> str:
    return name if len(name) <= length else name[: length - 1] + "…"


def stage_ink(reason: str) -> str:
    """The colour of an idle reason or a stage, one for all that are not known."""
    return INK[reason] if reason in INK else INK["other"]
