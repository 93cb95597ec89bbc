"""Bars for the modes whose points are alternatives: the levers of ``ablate``, the cores of ``starve``."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable

from matplotlib.ticker import NullLocator

from fastqps.bench.report import wording
from fastqps.bench.report.ink import INK, Drawing
from fastqps.bench.report.plots.plot import Plot, share_axis, time_axis
from fastqps.bench.report.reading import Json, number_at, points_of, rate_at, response_us, setting_at, text_at

_BARS_MAX = 24


def levers(result: Json) -> Plot | None:
    """Rate, p99 and duty cycle of each lever."""
    points = points_of(result)[:_BARS_MAX]
    if text_at(result, "mode") != "ablate" or not points:
        return None
    columns: list[tuple[str, str, list[float | None], Callable[[float | None], str]]] = [
        ("OK/s", "p50", [rate_at(point) for point in points], wording.rate),
        ("p99", "p99", [response_us(point, "p99") for point in points], wording.time),
        ("duty cycle", "device", [number_at(point, "duty_cycle") for point in points], wording.percent),
    ]
    columns = [column for column in columns if any(value for value in column[2])]
    if not columns:
        return None
    places = list(range(len(points)))
    with Drawing(60 + 30 * len(points), columns=len(columns)) as drawing:
        for panel, (title, ink, values, show) in zip(drawing.panels, columns, strict=True):
            panel.barh(places, [value or 0.0 for value in values], color=INK[ink], height=0.62)
            top = max(value or 0.0 for value in values)
            for place, value in zip(places, values, strict=True):
                panel.annotate(f" {show(value)}", (value or 0.0, place), va="center", fontsize=9)
            panel.set_xlim(0, top * 1.75)
            panel.set_title(title)
            panel.xaxis.set_major_locator(NullLocator())
            panel.spines["bottom"].set_visible(False)
            panel.grid(visible=False)
            panel.tick_params(axis="y", length=0)
        drawing.panels[0].set_yticks(places, [_wrapped(text_at(point, "name")) for point in points])
        drawing.panels[0].invert_yaxis()
        rows = zip(points, *(column[2] for column in columns), strict=True)
        alt = "; ".join(
            f"{text_at(point, 'name')}: "
            + ", ".join(f"{title} {show(value)}" for (title, _, _, show), value in zip(columns, values, strict=True))
            for point, *values in rows
        )
        svg = drawing.svg(f"{alt}.", "levers")
    reading = (
        "Each row adds one lever to the row above it, in the same run. A lever that lifts the duty cycle lets the "
        "device work instead of waiting for the host; one that lifts the rate alone makes the steps themselves cheaper."
    )
    return Plot("levers", "One lever after the other", svg, reading)


def starvation(result: Json) -> Plot | None:
    """Rate kept and p99 over the server's cores, with and without a noisy neighbour."""
    points = [point for point in points_of(result) if setting_at(point, "cores")]
    if text_at(result, "mode") != "starve" or not points:
        return None
    cores = sorted({setting_at(point, "cores") for point in points}, key=lambda text: -_number(text))
    p99s = [value for point in points if (value := response_us(point, "p99"))]
    with Drawing(330, rows=2) as drawing:
        kept, p99 = drawing.panels
        for neighbour, label, ink in ((False, "alone", "p50"), (True, "with a noisy neighbour", "p99")):
            own = [point for point in points if (setting_at(point, "neighbour") in ("on", "True", "1")) == neighbour]
            places = [cores.index(setting_at(point, "cores")) for point in own]
            if own:
                rates = [_kept(point) for point in own]
                kept.plot(places, rates, "o-", color=INK[ink], label=label, markersize=4)
            times = [(x, us) for x, point in zip(places, own, strict=True) if (us := response_us(point, "p99"))]
            if times:
                p99.plot(*zip(*times, strict=True), "o-", color=INK[ink], markersize=4)
        share_axis(kept, of_y=True, high=1.08)
        kept.set_ylabel("rate kept")
        if p99s:
            time_axis(p99, p99s, "p99")
        p99.set_xticks(range(len(cores)), cores)
        p99.set_xlabel("cores of the server")
        drawing.legend(kept)
        alt = "; ".join(
            f"{text_at(p, 'name')}: {wording.percent(_kept(p))} of the rate, p99 {wording.time(response_us(p, 'p99'))}"
            for p in points
        )
        svg = drawing.svg(f"{alt}.", "starvation")
    reading = (
        "The same load on fewer and fewer cores. A server that degrades well loses rate in proportion to the cores "
        "that it lacks; a cliff means that processes wait for each other instead of working."
    )
    return Plot("starvation", "On fewer cores", svg, reading)


def _wrapped(name: str) -> str:
    """On two lines at most."""
    return "\n".join(textwrap.wrap(name, 24, max_lines=2, placeholder=" …"))


def _kept(point: Json) -> float:
    """Share of what was offered that was answered OK."""
    return (rate_at(point) or 0.0) / (number_at(point, "offered_rate") or math.inf)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
