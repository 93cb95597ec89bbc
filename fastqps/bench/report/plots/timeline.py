"""What happened from second to second."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean, median

from matplotlib.axes import Axes

from fastqps.bench.report import wording
from fastqps.bench.report.ink import INK, Drawing
from fastqps.bench.report.plots.plot import Plot, rate_axis, slo_lines, time_axis
from fastqps.bench.report.reading import (
    Json,
    answers_by_fate,
    best_of,
    list_at,
    mapping_at,
    name_at,
    number_at,
    points_of,
    text_at,
)

_ROWS_MAX = 400  # an hour of seconds would be wider than any screen

Row = dict[str, float | None]


def timeline(result: Json) -> Plot | None:
    """Rates, latencies and open calls of the best point, else of the last one; a closed loop's are always the same."""
    point = best_of(result) or next(reversed(points_of(result)), {})
    entries = [entry for entry in list_at(point, "timeline") if mapping_at(entry)]
    seconds = [_row(entry) for entry in entries if text_at(entry, "phase") in ("measured", "")]
    seconds = [row for row in seconds if row["t"] is not None and row["t"] >= 0]
    if len(seconds) < 2:
        return None
    n_together = -(-len(seconds) // _ROWS_MAX)
    rows = [_together(seconds[at : at + n_together]) for at in range(0, len(seconds), n_together)]
    closed = text_at(point, "load", "loop") == "closed"
    heights = [1.1, 1.1] if closed else [1.1, 1.1, 0.7]
    with Drawing(138 * sum(heights), rows=len(heights), heights=heights) as drawing:
        rates, times = drawing.panels[:2]
        for name, label, ink in _RATES:
            _line(rates, rows, name, label, ink)
        rate_axis(rates, "per second", of_y=True)
        rates.legend(loc="lower left", ncols=5)
        shown = [row[name] for row in rows for name in ("p50", "p99") if row[name]]
        if shown:
            _line(times, rows, "p50", "p50", "p50")
            _line(times, rows, "p99", "p99", "p99")
            time_axis(times, [*(us for us in shown if us), *slo_lines(times, result)], "response time")
            times.legend(loc="upper right", ncols=2)
        if not closed:
            _line(drawing.panels[2], rows, "open", "open calls", "p90")
            rate_axis(drawing.panels[2], "open calls", of_y=True)
            drawing.panels[2].set_ylim(top=max(10, drawing.panels[2].get_ylim()[1]))
        drawing.panels[-1].set_xlabel("seconds since the start of the measurement")
        svg = drawing.svg(_alt(seconds), "timeline")
    where = f" at {name}" if (name := name_at(result, point)) else ""
    reading = "A steady server draws level lines. Spikes of p99 together with a dip of the answers are stalls."
    if not closed:
        reading += (
            " Open calls are those in flight and those that wait to be sent, at the end of each second; if they climb "
            "without end, the load is beyond capacity."
        )
    if n_together > 1:
        reading += f" Each step is {n_together} s: mean rates, the median of p50, the worst p99."
    return Plot("timeline", f"Second by second{where}", svg, reading)


_RATES = (
    ("sent", "sent", "faint"),
    ("ok", "answered OK", "p50"),
    ("refused", "refused", "queue"),
    ("expired", "expired", "p999"),
    ("failed", "failed", "bad"),
)
_MEANS: dict[str, Callable[[list[float]], float]] = {"p50": median, "p99": max, "open": max}


def _row(entry: Json) -> Row:
    """One second, or what is left of it at the end; a fate is None where it does not occur. Counts become rates."""
    length_s = number_at(entry, "length_s") or 1.0
    fates = answers_by_fate(entry)
    sent, ok = number_at(entry, "sent"), number_at(entry, "ok")
    in_flight = number_at(entry, "in_flight")
    found: Row = {fate: fates[fate] / length_s or None for fate in ("refused", "expired", "failed")}
    return found | {
        "t": number_at(entry, "t_s"),
        "sent": None if sent is None else sent / length_s,
        "ok": (fates["ok"] if ok is None else ok) / length_s,
        "p50": number_at(entry, "p50_us"),
        "p99": number_at(entry, "p99_us"),
        "open": None if in_flight is None else in_flight + (number_at(entry, "waiting") or 0.0),
    }


def _together(rows: list[Row]) -> Row:
    found: Row = {"t": rows[0]["t"]}
    for name in rows[0]:
        values = [value for row in rows if (value := row[name]) is not None]
        if name != "t":
            found[name] = _MEANS.get(name, fmean)(values) if values else None
    return found


def _line(panel: Axes, rows: list[Row], name: str, label: str, ink: str) -> None:
    known = [(row["t"], row[name]) for row in rows if row[name] is not None]
    if known and name in ("refused", "expired", "failed"):  # none in a second is zero
        known = [(row["t"], row[name] or 0.0) for row in rows]
    if known:
        panel.plot(*zip(*known, strict=True), color=INK[ink], label=label, linewidth=1.3)


def _alt(rows: list[Row]) -> str:
    rates = [row["ok"] for row in rows if row["ok"] is not None]
    worst = max((row["p99"] for row in rows if row["p99"] is not None), default=None)
    span = f"between {wording.rate(min(rates))} and {wording.rate(max(rates))}" if rates else "not known"
    return f"{len(rows)} seconds: answers {span}; worst p99 of a second {wording.time(worst)}."
