"""What an autoscaler made of signals: their trade-offs, and the pods of each over the time of each scenario."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from fastqps.bench.report import wording
from fastqps.bench.report.ink import INK, Drawing
from fastqps.bench.report.plots.plot import Plot, rate_axis
from fastqps.bench.report.reading import Json, list_at, mapping_at, number_at, numbers_at, text_at
from fastqps.bench.report.summary import picked_trial

_INKS = {
    "saturation": "p50",
    "cpu": "p99",
    "duty": "p90",
    "waiting": "queue",
    "in_flight": "p999",
    "queue_wait_s": "bad",
    "rate": "faint",
}
_OUT_FLOOR = 1e-4  # of the time: below that the axis is one line


def trade_off(result: Json) -> Plot | None:
    """Pods against time outside of the SLO, a line of targets for each signal."""
    contests = [c for c in list_at(result, "autoscale", "contests") if len(_trials(c)) > 0]
    if not contests:
        return None
    with Drawing(360) as drawing:
        panel = drawing.panels[0]
        for contest in contests:
            rows, ink, name = _trials(contest), INK[_ink(contest)], text_at(contest, "name")
            xs, ys = [row["pods_over_least"] for row in rows], [max(_OUT_FLOOR, row["out_share"]) for row in rows]
            panel.plot(xs, ys, "o-", color=ink, markersize=3, linewidth=_width(contest), label=name)
            if at := numbers_at(picked_trial(contest)):
                x, y = at.get("pods_over_least", 1.0), max(_OUT_FLOOR, at.get("out_share", 1.0))
                panel.plot([x], [y], "o", color=ink, markersize=10, fillstyle="none", markeredgewidth=1.8)
        panel.set_yscale("log")
        panel.yaxis.set_major_formatter(FuncFormatter(lambda share, _: _out_text(share)))
        panel.set_ylabel("time outside of the SLO")
        _pods_axis(panel)
        drawing.legend(panel)
        told = (f"{text_at(c, 'name')}: {_picked_text(c)}" for c in contests)
        svg = drawing.svg(f"{'; '.join(told)}.", "tradeoff")
    reading = (
        "Each dot is a target, from 37 % to 95 % of a pod's capacity, and the mean over all scenarios; rings are the "
        "targets that were picked. Down and to the left is better: little time outside of the SLO, with few pods more "
        "than the least that would have done. A line that runs far to the right pays for pods that help nobody."
    )
    return Plot("tradeoff", "Pods against time outside of the SLO", svg, reading)


def courses(result: Json) -> list[Plot]:
    """For each scenario the traffic, and each signal's pods."""
    contests = list_at(result, "autoscale", "contests")
    found = []
    for k, scenario in enumerate(list_at(result, "autoscale", "scenarios")):
        lines = [(contest, _course(contest, k)) for contest in contests]
        lines = [(contest, rows) for contest, rows in lines if len(rows) > 1]
        if lines:
            found.append(_course_plot(mapping_at(scenario), k, lines))
    return found


def _course_plot(scenario: Json, place_of: int, lines: Sequence[tuple[Json, list[dict[str, float]]]]) -> Plot:
    key, name, told = f"course-{place_of}", text_at(scenario, "name"), text_at(scenario, "told")
    seconds = number_at(scenario, "seconds") or 1.0
    unit_s, unit = (3600.0, "hours") if seconds >= 4 * 3600 else (60.0, "minutes")
    with Drawing(400, rows=3, heights=[0.8, 1.5, 0.12 * len(lines) + 0.1]) as drawing:
        traffic, pods, outside = drawing.panels
        first = lines[0][1]
        at = [row["t_s"] / unit_s for row in first]
        traffic.plot(at, [row["rate"] for row in first], color=INK["faint"], linewidth=1.2)
        rate_axis(traffic, "requests/s", of_y=True)
        needed = [row["needed"] for row in first]
        pods.fill_between(at, needed, step="post", color=INK["grid"], label="least that would do")
        top = max(needed)
        for place, (contest, rows) in enumerate(lines):
            ink = INK[_ink(contest)]
            xs, ys = [row["t_s"] / unit_s for row in rows], [row["pods"] for row in rows]
            pods.step(xs, ys, where="post", color=ink, linewidth=_width(contest), label=text_at(contest, "name"))
            top = max(top, sorted(ys)[int(0.97 * (len(ys) - 1))])
            step_s = (rows[1]["t_s"] - rows[0]["t_s"]) / unit_s
            spans = [(row["t_s"] / unit_s, step_s) for row in rows if row["out_s"] > 0]
            outside.broken_barh(spans, (len(lines) - place - 0.9, 0.8), facecolors=ink)
        pods.set_ylim(0, max(1.0, 1.25 * top))
        pods.set_ylabel("pods")
        pods.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        outside.set_ylim(0, len(lines))
        outside.set_yticks([len(lines) / 2], ["outside"])
        outside.tick_params(axis="y", length=0)
        outside.grid(visible=False)
        outside.set_xlabel(unit)
        drawing.legend(pods)
        svg = drawing.svg(f"{told}; {'; '.join(_course_alt(contest, rows) for contest, rows in lines)}.", key)
    reading = (
        f"{told[:1].upper()}{told[1:]}. In the middle the pods that each signal asked for at its picked target; grey "
        "is what would have done for somebody who knew the future. The stripes below are the times outside of the "
        "SLO, one line for each signal, in the order of the legend."
    )
    return Plot(key, f"Scenario: {name}", svg, reading)


def signal_curves(result: Json) -> Plot | None:
    """Each signal over the load, as a share of what it says at the capacity."""
    recording = mapping_at(result, "autoscale", "recording") or mapping_at(result, "recording")
    capacity = number_at(recording, "capacity")
    levels = [level for level in list_at(recording, "levels") if number_at(level, "offered") is not None]
    if not capacity or len(levels) < 2:
        return None
    loads = [(number_at(level, "offered") or 0.0) / capacity for level in levels]
    values = [numbers_at(level, "signals") for level in levels]
    near = min(range(len(loads)), key=lambda k: abs(loads[k] - 1.0))
    with Drawing(320) as drawing:
        panel = drawing.panels[0]
        panel.plot([0, max(loads)], [0, max(loads)], color=INK["grid"], linewidth=1)
        panel.axvline(1.0, color=INK["limit"], linestyle=(0, (5, 3)), linewidth=1.2)
        for key, ink in _INKS.items():
            at_capacity = values[near].get(key, 0.0)
            if at_capacity > 0:
                ys = [value.get(key, 0.0) / at_capacity for value in values]
                width = 2.4 if key == "saturation" else 1.3
                panel.plot(loads, ys, "o-", color=INK[ink], markersize=3, linewidth=width, label=_WORDS[key])
        panel.set_ylim(0, 2.0)
        panel.set_xlim(0, min(1.6, max(loads)))
        panel.set_xlabel("load, as a share of the capacity")
        panel.set_ylabel("of what it says at the capacity")
        drawing.legend(panel)
        told = ", ".join(f"{_WORDS[key]} {value:.3g}" for key, value in values[near].items() if key in _WORDS)
        svg = drawing.svg(f"At the capacity: {told}.", "signals")
    reading = (
        "An autoscaler takes a signal for a share of the load: it works best with one on the grey diagonal, up to the "
        "capacity (dashed) and beyond. A flat line moves no pods; one that lies on the ground and then leaves the "
        "picture says nothing until it is too late, and then too much."
    )
    return Plot("signals", "What each signal says of the load", svg, reading)


_WORDS = {
    "saturation": "saturation",
    "cpu": "CPU",
    "duty": "GPU utilization",
    "waiting": "queue length",
    "in_flight": "concurrency",
    "queue_wait_s": "queue wait p95",
    "rate": "requests per second",
}


def _trials(contest: Json) -> list[dict[str, float]]:
    rows = [numbers_at(row) for row in list_at(contest, "trials")]
    return [row for row in rows if {"pods_over_least", "out_share", "target"} <= row.keys()]


def _course(contest: Json, scenario: int) -> list[dict[str, float]]:
    """Rows over time of the picked trial in one scenario."""
    runs = list_at(picked_trial(contest), "runs")
    rows = [numbers_at(row) for row in list_at(runs[scenario], "course")] if scenario < len(runs) else []
    return [row for row in rows if {"t_s", "rate", "needed", "pods", "out_s"} <= row.keys()]


def _course_alt(contest: Json, rows: list[dict[str, float]]) -> str:
    most, out_s = max(row["pods"] for row in rows), sum(row["out_s"] for row in rows)
    return f"{text_at(contest, 'name')} at most {most:.0f} pods, {out_s:.0f} s outside"


def _picked_text(contest: Json) -> str:
    trial = picked_trial(contest)
    pods, out = number_at(trial, "pods_over_least"), number_at(trial, "out_share")
    return "no target" if pods is None else f"{pods:.2f} × the least pods, {wording.percent(out)} outside"


def _pods_axis(panel: Axes) -> None:
    """From the least; lines that run away are cut off."""
    panel.set_xlabel("pods, × the least that would do")
    panel.set_xlim(1.0, min(max(2.0, panel.get_xlim()[1]), 4.0))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g} ×"))


def _out_text(share: float) -> str:
    return f"{100 * share:.3g} %"


def _ink(contest: Json) -> str:
    return _INKS.get(text_at(contest, "key"), "other")


def _width(contest: Json) -> float:
    return 2.4 if text_at(contest, "key") == "saturation" else 1.2
