"""How busy the device was, and why it was not."""

from __future__ import annotations

from fastqps.bench.report import wording
from fastqps.bench.report.ink import INK, Drawing
from fastqps.bench.report.plots.plot import Plot, bar_name, share_axis, shorten, stage_ink
from fastqps.bench.report.reading import (
    Json,
    idle_reasons,
    list_at,
    mapping_at,
    name_at,
    number_at,
    points_of,
    setting_names,
    text_at,
)
from fastqps.bench.report.summary import main_point

_BARS_MAX = 40
REASON_WORDS = {
    "no_work": "no work",
    "batch_delay": "batch delay",
    "gather": "preparing",
    "launch": "launching",
    "shared": "others' steps",
    "scatter": "copying out",
}

Bar = tuple[str, dict[str, float]]  # a label, and shares of the time: busy first, then reasons


def duty_by_dispatcher(result: Json) -> Plot | None:
    """Of the point that stands for the run: each device's union, and each dispatcher's own time."""
    point = main_point(result)
    bars = [
        (f"{shorten(text_at(one, 'device') or 'device', 22)}, union", {"busy": _share(duty)})
        for one in list_at(point, "devices")
        if (duty := number_at(one, "duty_cycle")) is not None
    ]
    dispatchers = [one for one in list_at(point, "dispatchers") if number_at(one, "busy") is not None]
    bars += [
        (
            f"dispatcher {text_at(one, 'dispatcher')}",
            {"busy": _share(number_at(one, "busy") or 0.0)} | idle_reasons(mapping_at(one, "idle")),
        )
        for one in dispatchers
    ]
    if not bars:
        return None
    where = f" at {name}" if (name := name_at(result, point)) else ""
    reading = (
        "Orange is time in which the device ran that dispatcher's steps, the other colours why it did not. The union "
        "counts every moment in which the device ran anything: several half-busy dispatchers can fill one device."
    )
    svg = _draw(bars[:_BARS_MAX], "duty-dispatchers")
    return Plot("duty-dispatchers", f"Duty cycle of each dispatcher{where}", svg, reading)


def duty_by_point(result: Json) -> Plot | None:
    """Each point's duty cycle, and what its dispatchers waited for; where there are several points."""
    bars: list[Bar] = []
    for point in points_of(result):
        duty = number_at(point, "duty_cycle")
        if duty is not None:
            bars.append((bar_name(result, point, 26), {"busy": _share(duty)} | _scaled(point, duty)))
    if len(bars) < 2:
        return None
    reading = (
        "Orange is the share of the time in which the device ran something (the union over dispatchers). The rest is "
        "split by what the dispatchers were waiting for meanwhile, in proportion."
    )
    if searched := setting_names(result):
        reading += f" Bars are named for their {' · '.join(map(wording.words, searched))}."
    if len(bars) > _BARS_MAX:
        reading += f" The first {_BARS_MAX} of {len(bars)} points."
    return Plot("duty-points", "Duty cycle and reasons for idling", _draw(bars[:_BARS_MAX], "duty-points"), reading)


def _scaled(point: Json, duty: float) -> dict[str, float]:
    """The dispatchers' idle reasons in proportion to the device's idle time."""
    reasons = idle_reasons(mapping_at(point, "idle_reasons"))
    total = sum(max(0.0, share) for share in reasons.values())
    return {name: max(0.0, share) / total * (1 - _share(duty)) for name, share in reasons.items()} if total > 0 else {}


def _share(value: float) -> float:
    return min(1.0, max(0.0, value))


def _draw(bars: list[Bar], key: str) -> str:
    names = list(dict.fromkeys(name for _, shares in bars for name in shares))
    places = list(range(len(bars)))
    with Drawing(80 + 26 * len(bars)) as drawing:
        panel = drawing.panels[0]
        left = [0.0] * len(bars)
        for name in names:
            widths = [max(0.0, shares.get(name, 0.0)) for _, shares in bars]
            ink = INK["device"] if name == "busy" else stage_ink(name)
            panel.barh(places, widths, left=left, color=ink, label=REASON_WORDS.get(name, name), height=0.72)
            left = [a + b for a, b in zip(left, widths, strict=True)]
        for place, (_, shares) in enumerate(bars):
            panel.annotate(
                f" {wording.percent(shares['busy'])}", (max(1.0, left[place]), place), va="center", fontsize=9
            )
        share_axis(panel, high=1.18)
        panel.set_xticks([0, 0.25, 0.5, 0.75, 1.0])
        panel.set_yticks(places, [name for name, _ in bars])
        panel.invert_yaxis()
        panel.grid(visible=False, axis="y")
        drawing.legend(panel)
        alt = "Busy: " + "; ".join(f"{name} {wording.percent(shares['busy'])}" for name, shares in bars) + "."
        return drawing.svg(alt, key)
