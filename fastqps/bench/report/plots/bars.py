"""Stacked bars: why the device idles, what became of the calls, and the stages of a request."""

from __future__ import annotations

from collections.abc import Mapping

from fastqps.bench.report import wording
from fastqps.bench.report.plots.latency import points_by_load
from fastqps.bench.report.plots.plot import Bars, Plot, at, bar_name, shorten, stacked_bars
from fastqps.bench.report.points import IDLE_REASONS, fates, main_point, number, searched_settings
from fastqps.bench.report.stages import stage_means, stage_names, stage_shares
from fastqps.bench.results.point import Point
from fastqps.bench.results.result import Result

_BARS_MAX, _STAGE_BARS_MAX = 40, 24
_IDLE_WORDS = {
    "no_work": "no work",
    "batch_delay": "batch delay",
    "gather": "preparing",
    "launch": "launching",
    "shared": "others' steps",
    "scatter": "copying out",
}
_FATES = {"in time": "good", "OK, but late": "p90", "refused": "queue", "expired": "p999", "failed": "bad"}


def duty_by_dispatcher(result: Result) -> Plot | None:
    """Of the point that stands for the run: each device's union, and each dispatcher's own time."""
    point = main_point(result)
    if point is None:
        return None
    bars: list[tuple[str, dict[str, float]]] = [
        (f"{shorten(str(one.get('device') or 'device'), 22)}, union", {"busy": _share(duty)})
        for one in point.devices or []
        if (duty := number(one, "duty_cycle")) is not None
    ]
    bars += [
        (f"dispatcher {one.get('dispatcher')}", {"busy": _share(busy), **_idle(one.get("idle"))})
        for one in point.dispatchers or []
        if (busy := number(one, "busy")) is not None
    ]
    if not bars:
        return None
    reading = (
        "Orange is time in which the device ran that dispatcher's steps, the other colours why it did not. The union "
        "counts every moment in which the device ran anything: several half-busy dispatchers can fill one device."
    )
    svg = _duty_bars("duty-dispatchers", bars)
    return Plot("duty-dispatchers", f"Duty cycle of each dispatcher{at(result, point)}", svg, reading)


def duty_by_point(result: Result) -> Plot | None:
    """Each point's duty cycle, and what its dispatchers waited for; where there are several points."""
    bars = [
        (bar_name(result, point, 26), {"busy": _share(duty), **_scaled(_idle(point.idle_reasons), 1 - _share(duty))})
        for point in result.points
        if (duty := point.duty_cycle) is not None
    ]
    if len(bars) < 2:
        return None
    reading = (
        "Orange is the share of the time in which the device ran something (the union over dispatchers). The rest is "
        "split by what the dispatchers were waiting for meanwhile, in proportion."
    )
    if searched := searched_settings(result):
        reading += f" Bars are named for their {' · '.join(map(wording.words, searched))}."
    if len(bars) > _BARS_MAX:
        reading += f" The first {_BARS_MAX} of {len(bars)} points."
    return Plot("duty-points", "Duty cycle and reasons for idling", _duty_bars("duty-points", bars), reading)


def _duty_bars(key: str, bars: Bars) -> str:
    shown = bars[:_BARS_MAX]
    notes = [wording.percent(lengths["busy"]) for _, lengths in shown]
    alt = "; ".join(f"{name} {note}" for (name, _), note in zip(shown, notes, strict=True))
    inks = {"busy": "device"}
    return stacked_bars(key, shown, f"Busy: {alt}.", inks=inks, labels=_IDLE_WORDS, notes=notes, high=1.18)


def _idle(found: object) -> dict[str, float]:
    """Shares of the time by reason, known reasons in the order of a step first."""
    shares = found if isinstance(found, Mapping) else {}
    ordered = [*(reason for reason in IDLE_REASONS if reason in shares), *shares]
    return {reason: share for reason in dict.fromkeys(ordered) if (share := number(shares, reason)) is not None}


def _scaled(shares: Mapping[str, float], total: float) -> dict[str, float]:
    """The values scaled so that they add up to ``total``."""
    whole = sum(max(0.0, share) for share in shares.values())
    return {name: max(0.0, share) / whole * total for name, share in shares.items()} if whole > 0 else {}


def _share(value: float) -> float:
    return min(1.0, max(0.0, value))


def fates_by_load(result: Result) -> Plot | None:
    """Shares of the calls at each load, if any were not answered OK in time."""
    bars = [(bar_name(result, point, 18), _fates(point)) for point in points_by_load(result) if point.answers]
    if not any(shares.get(fate, 0.0) > 0.0005 for _, shares in bars for fate in list(_FATES)[1:]):
        return None
    worst = ", ".join(f"{fate} {wording.percent(share)}" for fate, share in bars[-1][1].items())
    reading = (
        "Refusing early (RESOURCE_EXHAUSTED, with a hint when to come back) is what keeps the rest in time; expired "
        "calls waited for nothing, failed ones are errors."
    )
    svg = stacked_bars("fates", bars, f"At the highest load: {worst}.", inks=_FATES)
    return Plot("fates", "What became of the calls", svg, reading)


def _fates(point: Point) -> dict[str, float]:
    """Shares of all calls, by fate. Without a goodput every OK answer counts as in time."""
    found = {fate: calls / point.answers for fate, calls in fates(point.status).items()}
    ok = found.pop("ok")
    late = max(0.0, 1 - point.goodput / point.rate) if point.rate and point.goodput is not None else 0.0
    shares = {"in time": ok * (1 - late), "OK, but late": ok * late, **found}
    return {fate: share for fate, share in shares.items() if share > 0}


def stage_share_bars(result: Result) -> Plot | None:
    """Each stage's share of the end-to-end time, one bar for each point that knows its stages."""
    rows = _stage_rows(result)
    if not rows:
        return None
    bars = [(name, {stage: us / sum(means.values()) for stage, us in means.items()}) for name, means in rows]
    notes = [f"device {wording.percent(shares.get('device', 0.0))}" for _, shares in bars]
    reading = (
        "Orange is the device, grey (wire) what the client saw beyond the server's own stamps: the network, both "
        "kernels and the client itself. Yellow waits for the device; a queue that takes over is load beyond "
        "what the device gets through. Everything else is the host's own work."
    )
    svg = stacked_bars("stage-shares", bars, _stage_alt(rows), notes=notes, high=1.28)
    return Plot("stage-shares", "Where the time goes: share of end to end", svg, reading)


def stage_time_bars(result: Result) -> Plot | None:
    """The mean time of each stage in microseconds, as bars."""
    rows = _stage_rows(result)
    if not rows:
        return None
    notes = [wording.time(sum(means.values())) for _, means in rows]
    reading = "The same bars in absolute time; the figure behind each is the mean end-to-end time."
    svg = stacked_bars("stage-times", rows, _stage_alt(rows), notes=notes, times=True)
    return Plot("stage-times", "Where the time goes: mean times", svg, reading)


def _stage_rows(result: Result) -> list[tuple[str, dict[str, float]]]:
    """Stages in the order of a request's life, the same ones in every row."""
    best = main_point(result)
    points = [best] if result.mode == "tune" and best else result.points
    rows = [(bar_name(result, point, 22), stage_means(point)) for point in points]
    rows = [(name, means) for name, means in rows if sum(means.values()) > 0][:_STAGE_BARS_MAX]
    stages = stage_names([means for _, means in rows])
    return [(name, {stage: means.get(stage, 0.0) for stage in stages}) for name, means in rows]


def _stage_alt(rows: Bars) -> str:
    sentences = []
    for name, means in rows:
        parts = ", ".join(f"{part} {wording.percent(share)}" for part, share in stage_shares(dict(means)).items())
        sentences.append(f"{name}: {wording.time(sum(means.values()))}, of it {parts}")
    return "; ".join(sentences) + "."
