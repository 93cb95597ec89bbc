"""One load over time: what happened from second to second, and what the processes held meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import fmean, median
from typing import Any

from fastqps.bench.report import wording
from fastqps.bench.report.ink import Drawing
from fastqps.bench.report.plots.plot import Plot, at, line, rate_axis, slo_lines, time_axis
from fastqps.bench.report.points import fates, number
from fastqps.bench.results.result import Result

_ROWS_MAX = 400  # an hour of seconds would be wider than any screen
_MIB = 1 << 20
_ROLE_INKS = ("p50", "p99", "p90", "p999", "good", "faint")
_RATES = (
    ("sent", "sent", "faint"),
    ("ok", "answered OK", "p50"),
    ("refused", "refused", "queue"),
    ("expired", "expired", "p999"),
    ("failed", "failed", "bad"),
)
_MEANS: dict[str, Callable[[list[float]], float]] = {"p50": median, "p99": max, "open": max}
Row = dict[str, float | None]


def timeline(result: Result) -> Plot | None:
    """Rates, latencies and open calls of the best point, else of the last one; a closed loop's are always the same."""
    point = result.best_point or next(reversed(result.points), None)
    if point is None:
        return None
    seconds = [_row(entry) for entry in point.timeline if entry.get("phase") in ("measured", None)]
    seconds = [row for row in seconds if row["t"] is not None and row["t"] >= 0]
    if len(seconds) < 2:
        return None
    n_together = -(-len(seconds) // _ROWS_MAX)
    rows = [_together(seconds[k : k + n_together]) for k in range(0, len(seconds), n_together)]
    closed = point.load.get("loop") == "closed"
    heights = [1.1, 1.1] if closed else [1.1, 1.1, 0.7]

    def course(name: str) -> list[tuple[float | None, float | None]]:
        return [(row["t"], row[name]) for row in rows]

    with Drawing("timeline", 138 * sum(heights), rows=len(heights), heights=heights) as drawing:
        rates, times = drawing.panels[:2]
        for name, label, ink in _RATES:
            if any(row[name] for row in rows) or name in ("sent", "ok"):
                line(rates, course(name), ink, label=label, linewidth=1.3)
        rate_axis(rates, "per second", of_y=True)
        rates.legend(loc="lower left", ncols=5)
        shown = [row[name] for row in rows for name in ("p50", "p99") if row[name]]
        if shown:
            for name in ("p50", "p99"):
                line(times, course(name), name, label=name, linewidth=1.3)
            time_axis(times, [*shown, *slo_lines(times, result)], "response time")
            times.legend(loc="upper right", ncols=2)
        if not closed:
            line(drawing.panels[2], course("open"), "p90", linewidth=1.3)
            rate_axis(drawing.panels[2], "open calls", of_y=True)
            drawing.panels[2].set_ylim(top=max(10, drawing.panels[2].get_ylim()[1]))
        drawing.panels[-1].set_xlabel("seconds since the start of the measurement")
        svg = drawing.svg(_alt(seconds))
    reading = "A steady server draws level lines. Spikes of p99 together with a dip of the answers are stalls."
    if not closed:
        reading += (
            " Open calls are those in flight and those that wait to be sent, at the end of each second; if they climb "
            "without end, the load is beyond capacity."
        )
    if n_together > 1:
        reading += f" Each step is {n_together} s: mean rates, the median of p50, the worst p99."
    return Plot("timeline", f"Second by second{at(result, point)}", svg, reading)


def _row(entry: Mapping[str, Any]) -> Row:
    """One second, or what is left of it at the end. Counts become rates."""
    length_s = number(entry, "length_s") or 1.0
    status = entry.get("status")
    ended = fates({code: n for code in status if (n := number(status, code))} if isinstance(status, Mapping) else {})
    sent, ok, in_flight = (number(entry, name) for name in ("sent", "ok", "in_flight"))
    return {
        "t": number(entry, "t_s"),
        "sent": None if sent is None else sent / length_s,
        "ok": (ended.pop("ok") if ok is None else ok) / length_s,
        **{fate: ended[fate] / length_s for fate in ("refused", "expired", "failed")},
        "p50": number(entry, "p50_us"),
        "p99": number(entry, "p99_us"),
        "open": None if in_flight is None else in_flight + (number(entry, "waiting") or 0.0),
    }


def _together(rows: list[Row]) -> Row:
    found: Row = {"t": rows[0]["t"]}
    for name in rows[0].keys() - {"t"}:
        values = [value for row in rows if (value := row[name]) is not None]
        found[name] = _MEANS.get(name, fmean)(values) if values else None
    return found


def _alt(rows: list[Row]) -> str:
    rates = [row["ok"] for row in rows if row["ok"] is not None]
    worst = max((row["p99"] for row in rows if row["p99"] is not None), default=None)
    span = f"between {wording.rate(min(rates))} and {wording.rate(max(rates))}"
    return f"{len(rows)} seconds: answers {span}; worst p99 of a second {wording.time(worst)}."


def process_drift(result: Result) -> Plot | None:
    """Private memory and open descriptors by role, over a long run."""
    samples = result.extra.get("processes") or []
    roles = list(dict.fromkeys(role for sample in samples for role in sample["memory_bytes"]))
    if len(samples) < 2 or not roles:
        return None
    with Drawing("processes", 320, rows=2) as drawing:
        memory, descriptors = drawing.panels
        for role, ink in zip(roles, _ROLE_INKS * len(roles), strict=False):
            for panel, key, unit in ((memory, "memory_bytes", _MIB), (descriptors, "descriptors", 1)):
                held = [(sample["t_s"], sample[key].get(role)) for sample in samples]
                line(panel, [(t, None if n is None else n / unit) for t, n in held], ink, label=role)
        rate_axis(memory, "private MiB", of_y=True)
        rate_axis(descriptors, "descriptors", of_y=True)
        descriptors.set_xlabel("seconds")
        drawing.legend(memory)
        ends = [[sample["memory_bytes"].get(role, 0) / _MIB for sample in (samples[0], samples[-1])] for role in roles]
        told = (f"{role}: {a:.0f} MiB at first, {b:.0f} MiB at last" for role, (a, b) in zip(roles, ends, strict=True))
        svg = drawing.svg(f"{'; '.join(told)}.")
    reading = (
        "Level lines are what a long run should show. A line that climbs after the first minutes is a leak: of memory, "
        "or of connections and files."
    )
    return Plot("processes", "Memory and descriptors", svg, reading)
