"""The way of the tuner's search, and what it found for each setting."""

from __future__ import annotations

from statistics import median

from fastqps.bench.report import wording
from fastqps.bench.report.ink import INK, Drawing
from fastqps.bench.report.plots.plot import Plot, rate_axis, share_axis
from fastqps.bench.report.reading import Json, best_of, number_at, points_of, setting_at, text_at, varied_settings


def search_path(result: Json) -> Plot | None:
    """Rate and duty cycle of each run in the order of the search."""
    points = [point for point in points_of(result) if number_at(point, "rate") is not None]
    if text_at(result, "mode") != "tune" or len(points) < 2:
        return None
    kept = [keeps_slo(result, point) for point in points]
    rates = [number_at(point, "rate") or 0.0 for point in points]
    duties = [number_at(point, "duty_cycle") for point in points]
    best = best_of(result)
    with Drawing(340, rows=2, heights=[1.6, 1]) as drawing:
        panel, duty = drawing.panels
        for met, label, marker, ink in ((True, "within the objective", "o", "p50"), (False, "not within", "x", "bad")):
            known = [(i + 1, rate) for i, (rate, ok) in enumerate(zip(rates, kept, strict=True)) if ok == met]
            if known:
                panel.plot(*zip(*known, strict=True), marker, color=INK[ink], markersize=4.5, label=label)
        record, highest = [], 0.0
        for rate, ok in zip(rates, kept, strict=True):
            highest = max(highest, rate if ok else 0.0)
            record.append(highest)
        panel.step(
            range(1, len(points) + 1), record, where="post", color=INK["faint"], linewidth=1, label="best so far"
        )
        if best is not None and (found := number_at(best, "rate")) is not None:
            place = next((i + 1 for i, point in enumerate(points) if point is best), 1)
            panel.plot([place], [found], "o", markersize=11, fillstyle="none", color=INK["good"], label="chosen")
        rate_axis(panel, "OK per second", of_y=True)
        known_duty = [(i + 1, value) for i, value in enumerate(duties) if value is not None]
        if known_duty:
            runs, shares = zip(*known_duty, strict=True)
            duty.bar(runs, shares, color=INK["device"], width=0.7)
        share_axis(duty, of_y=True)
        duty.set_ylabel("duty cycle")
        duty.set_xlabel("run of the search")
        drawing.legend(panel, 4)
        svg = drawing.svg(_alt(best, len(points)), "search")
    reading = (
        "Each mark is one run with one setting; the same setting may run several times until the difference is more "
        "than noise. The ring is the setting that was chosen, which need not be the highest single mark: the simpler "
        "of two that cannot be told apart wins."
    )
    return Plot("search", "The search, run by run", svg, reading)


def _alt(best: Json | None, runs: int) -> str:
    if best is None:
        return f"{runs} runs; no setting was chosen."
    return (
        f"{runs} runs; chosen: {text_at(best, 'name')} with {wording.rate(number_at(best, 'rate'))} "
        f"and a duty cycle of {wording.percent(number_at(best, 'duty_cycle'))}."
    )


def keeps_slo(result: Json, point: Json) -> bool:
    """True if the point's latencies and errors are within the run's objective, and it is no INVALID or UNSTABLE one."""
    if text_at(point, "verdict") not in ("VALID", ""):
        return False
    limits = result.get("slo")
    for name in limits if isinstance(limits, dict) else ():
        limit, measured = number_at(limits, name), number_at(point, "response_time_us", str(name)[:-3])
        if str(name).endswith("_us") and limit is not None and (measured is None or measured > limit):
            return False
    return True


def explored_grid(result: Json) -> Plot | None:
    """The median rate and duty cycle for each pair of two settings that vary, most often dispatchers × lanes."""
    points = [point for point in points_of(result) if number_at(point, "rate") is not None]
    names = varied_settings(points)
    names.sort(key=lambda name: name not in ("dispatchers", "lanes"))
    if text_at(result, "mode") != "tune" or len(names) < 2:
        return None
    across, down = names[:2]
    cells: dict[tuple[str, str], list[Json]] = {}
    for point in points:
        cells.setdefault((setting_at(point, across), setting_at(point, down)), []).append(point)
    xs, ys = (sorted({pair[k] for pair in cells}, key=_numeric) for k in (0, 1))
    rates = {pair: max(_medians(group, "rate")) for pair, group in cells.items()}
    top = max(rates.values()) or 1.0
    best = best_of(result)
    chosen = None if best is None else (setting_at(best, across), setting_at(best, down))
    with Drawing(90 + 44 * len(ys)) as drawing:
        panel = drawing.panels[0]
        for pair, group in cells.items():
            x, y = xs.index(pair[0]), ys.index(pair[1])
            panel.bar(x, 0.94, 0.96, y - 0.47, color=INK["p50"], alpha=0.08 + 0.5 * (rates[pair] / top) ** 3)
            duties = _medians(group, "duty_cycle")
            text = wording.rate(rates[pair]) + (f"\n{wording.percent(max(duties))}" if duties else "")
            weight = "bold" if pair == chosen else "normal"
            panel.annotate(text, (x, y), ha="center", va="center", fontsize=9, fontweight=weight)
            if pair == chosen:
                panel.bar(x, 0.94, 0.96, y - 0.47, fill=False, edgecolor=INK["good"], linewidth=2)
        panel.set_xticks(range(len(xs)), [x or "default" for x in xs])
        panel.set_yticks(range(len(ys)), [y or "default" for y in ys])
        panel.set_xlabel(wording.words(across))
        panel.set_ylabel(wording.words(down))
        panel.grid(visible=False)
        cell = "; ".join(f"{across} {a}, {down} {d}: {wording.rate(rate)}" for (a, d), rate in rates.items())
        svg = drawing.svg(f"{cell}.", "grid")
    reading = (
        "Each cell is one pair of settings with the best of what was tried for the others: the median rate, below it "
        "the duty cycle. The stronger the colour, the faster, the frame is the choice. Empty cells were not tried."
    )
    return Plot("grid", f"{wording.words(across).capitalize()} × {wording.words(down)}", svg, reading)


def _medians(group: list[Json], name: str) -> list[float]:
    """The median over repetitions, one for each combination of the other settings."""
    by_settings: dict[str, list[float]] = {}
    for point in group:
        value = number_at(point, name)
        if value is not None:
            by_settings.setdefault(repr(point.get("settings")), []).append(value)
    return [median(values) for values in by_settings.values()]


def _numeric(text: str) -> tuple[int, float, str]:
    try:
        return (0, float(text), text)
    except ValueError:
        return (1, 0.0, text)
