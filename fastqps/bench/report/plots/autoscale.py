"""Plots of autoscaling by signal: their trade-offs, and the number of pods over time in each scenario."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.ticker import FuncFormatter, MaxNLocator

from fastqps.autoscale.signals import SIGNALS
from fastqps.bench.report import wording
from fastqps.bench.report.ink import INK, Drawing
from fastqps.bench.report.plots.plot import Plot, line, rate_axis
from fastqps.bench.report.summary import picked_trial
from fastqps.bench.results.result import Result

_INKS = dict(zip(SIGNALS, ("p50", "p99", "p90", "queue", "p999", "bad", "faint"), strict=True))
_OUT_FLOOR = 1e-4  # of the time: below that the axis is one line
Contest = Mapping[str, Any]


def _style(key: str) -> dict[str, Any]:
    return {"linewidth": 2.4 if key == "saturation" else 1.2}


def trade_off(result: Result) -> Plot | None:
    """Pods against time outside of the SLO, a line of targets for each signal."""
    contests = [contest for contest in result.extra.get("autoscale", {}).get("contests", ()) if contest["trials"]]
    if not contests:
        return None

    def place(trial: Mapping[str, Any]) -> tuple[float, float]:
        return trial["pods_over_least"], max(_OUT_FLOOR, trial["out_share"])

    with Drawing("tradeoff", 360) as drawing:
        panel = drawing.panels[0]
        for contest in contests:
            ink, picked = _INKS[contest["key"]], picked_trial(contest)
            line(panel, map(place, contest["trials"]), ink, "o-", markersize=3, label=contest["name"],
                 **_style(contest["key"]))  # fmt: skip
            line(
                panel, [place(picked)] if picked else [], ink, "o", markersize=10, fillstyle="none", markeredgewidth=1.8
            )
        panel.set_yscale("log")
        panel.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.3g} %"))
        panel.set_ylabel("time outside of the SLO")
        panel.set_xlabel("pods, × the least that would do")
        panel.set_xlim(1.0, min(max(2.0, panel.get_xlim()[1]), 4.0))  # lines that run away are cut off
        panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g} ×"))
        drawing.legend(panel)
        svg = drawing.svg(
            "; ".join(f"{contest['name']}: {_picked_text(picked_trial(contest))}" for contest in contests) + "."
        )
    reading = (
        "Each dot is a target, from 37 % to 95 % of a pod's capacity, and the mean over all scenarios; rings are the "
        "targets that were picked. Down and to the left is better: little time outside of the SLO, with few pods more "
        "than the least that would have done. A line that runs far to the right pays for pods that help nobody."
    )
    return Plot("tradeoff", "Pods against time outside of the SLO", svg, reading)


def _picked_text(trial: Mapping[str, Any]) -> str:
    if not trial:
        return "no target"
    return f"{trial['pods_over_least']:.2f} × the least pods, {wording.percent(trial['out_share'])} outside"


def courses(result: Result) -> list[Plot]:
    """Plots the traffic and each signal's pods for each scenario."""
    found = result.extra.get("autoscale", {"scenarios": (), "contests": ()})
    plots = []
    for k, scenario in enumerate(found["scenarios"]):
        lines = [(c, trial["runs"][k]["course"]) for c in found["contests"] if (trial := picked_trial(c))]
        lines = [(contest, rows) for contest, rows in lines if len(rows) > 1]
        if lines:
            plots.append(_course_plot(scenario, f"course-{k}", lines))
    return plots


def _course_plot(
    scenario: Mapping[str, Any], key: str, lines: Sequence[tuple[Contest, list[dict[str, float]]]]
) -> Plot:
    unit_s, unit = (3600.0, "hours") if scenario["seconds"] >= 4 * 3600 else (60.0, "minutes")
    first, told = lines[0][1], scenario["told"]
    with Drawing(key, 400, rows=3, heights=[0.8, 1.5, 0.12 * len(lines) + 0.1]) as drawing:
        traffic, pods, outside = drawing.panels
        line(traffic, [(row["t_s"] / unit_s, row["rate"]) for row in first], "faint", linewidth=1.2)
        rate_axis(traffic, "requests/s", of_y=True)
        needed = [row["needed"] for row in first]
        times = [row["t_s"] / unit_s for row in first]
        pods.fill_between(times, needed, step="post", color=INK["grid"], label="least that would do")
        top = max(needed)
        for place, (contest, rows) in enumerate(lines):
            ink, counts = INK[_INKS[contest["key"]]], [row["pods"] for row in rows]
            at = [row["t_s"] / unit_s for row in rows]
            pods.step(at, counts, where="post", color=ink, label=contest["name"], **_style(contest["key"]))
            top = max(top, sorted(counts)[int(0.97 * (len(counts) - 1))])
            spans = [(t, at[1] - at[0]) for t, row in zip(at, rows, strict=True) if row["out_s"] > 0]
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
        ends = ((c["name"], max(r["pods"] for r in rows), sum(r["out_s"] for r in rows)) for c, rows in lines)
        alt = "; ".join(f"{name} at most {most:.0f} pods, {out_s:.0f} s outside" for name, most, out_s in ends)
        svg = drawing.svg(f"{told}; {alt}.")
    reading = (
        f"{told[:1].upper()}{told[1:]}. In the middle the pods that each signal asked for at its picked target; grey "
        "is what would have done for somebody who knew the future. The stripes below are the times outside of the "
        "SLO, one line for each signal, in the order of the legend."
    )
    return Plot(key, f"Scenario: {scenario['name']}", svg, reading)


def signal_curves(result: Result) -> Plot | None:
    """Each signal over the load, as a share of what it says at the capacity."""
    recording = result.extra.get("recording") or result.extra.get("autoscale", {}).get("recording")
    if not recording:
        return None
    levels = recording["levels"]
    loads = [level["offered"] / recording["capacity"] for level in levels]
    near = levels[min(range(len(loads)), key=lambda k: abs(loads[k] - 1.0))]["signals"]
    with Drawing("signals", 320) as drawing:
        panel = drawing.panels[0]
        line(panel, [(0, 0), (max(loads), max(loads))], "grid", linewidth=1)
        panel.axvline(1.0, color=INK["limit"], linestyle=(0, (5, 3)), linewidth=1.2)
        for key, signal in SIGNALS.items():
            if near[key] > 0:
                shares = [level["signals"][key] / near[key] for level in levels]
                line(panel, zip(loads, shares, strict=True), _INKS[key], "o-", markersize=3, label=signal.name,
                     **_style(key))  # fmt: skip
        panel.set_ylim(0, 2.0)
        panel.set_xlim(0, min(1.6, max(loads)))
        panel.set_xlabel("load, as a share of the capacity")
        panel.set_ylabel("of what it says at the capacity")
        drawing.legend(panel)
        svg = drawing.svg(f"At the capacity: {', '.join(f'{SIGNALS[key].name} {near[key]:.3g}' for key in SIGNALS)}.")
    reading = (
        "An autoscaler takes a signal for a share of the load: it works best with one on the grey diagonal, up to the "
        "capacity (dashed) and beyond. A flat line moves no pods; one that lies on the ground and then leaves the "
        "picture says nothing until it is too late, and then too much."
    )
    return Plot("signals", "What each signal says of the load", svg, reading)
