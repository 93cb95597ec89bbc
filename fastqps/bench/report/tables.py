"""Tables of what single modes find, beside that of the points: the same on the terminal and in the report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fastqps.bench.report import wording
from fastqps.bench.report.reading import (
    Json,
    interval_at,
    list_at,
    mapping_at,
    number_at,
    numbers_at,
    one_line_of,
    text_at,
    value_at,
)
from fastqps.bench.report.stages import stage_table
from fastqps.bench.report.summary import accuracy_figure, limit_of, picked_trial


@dataclass(frozen=True)
class PlainTable:
    """Text in rows; the first cell of each names the row."""

    key: str
    title: str
    head: list[str]
    rows: list[list[str]]


def tables_of(result: Json) -> list[PlainTable]:
    """Those that hold something."""
    found = [_contests(result), _scenarios(result)]
    found += [_accuracy(result), _farthest(result), _differences(result), _drift(result), _stages(result)]
    found.append(_decisions(result))
    return [table for table in found if table.rows]


def _contests(result: Json) -> PlainTable:
    rows = []
    for contest in list_at(result, "autoscale", "contests"):
        trial = picked_trial(contest)
        runs = [numbers_at(run) for run in list_at(trial, "runs")]
        if runs:
            lost, offered = (sum(run.get(key, 0.0) for run in runs) for key in ("lost", "offered"))
            share = number_at(trial, "share")
            row = [text_at(contest, "name"), f"{number_at(trial, 'target'):g}", wording.percent(share) if share else ""]
            row += [
                f"{number_at(trial, 'pods_over_least') or 0.0:.2f} ×",
                wording.percent(number_at(trial, "out_share")),
            ]
            row += [wording.percent(lost / offered if offered else None)]
            row += [wording.count(sum(run.get("reversals", 0.0) for run in runs))]
            rows.append([*row, f"{number_at(trial, 'score') or 0.0:.2f}"])
        else:
            rows.append([text_at(contest, "name"), *[wording.NOTHING] * 7])
    head = ["signal", "target", "of capacity", "pods, of the least", "outside of the SLO", "lost", "turns", "score"]
    return PlainTable("signals", "Signals, each at its best target", head, rows)


def _scenarios(result: Json) -> PlainTable:
    rows = []
    for k, scenario in enumerate(list_at(result, "autoscale", "scenarios")):
        for contest in list_at(result, "autoscale", "contests"):
            runs = list_at(picked_trial(contest), "runs")
            run = numbers_at(runs[k]) if k < len(runs) else {}
            if run.get("offered") and run.keys() >= _OUTCOME:
                row = [f"{text_at(scenario, 'name')}: {text_at(contest, 'name')}", f"{run['pod_seconds'] / 3600:,.1f}"]
                row += [f"{run['pods_over_least']:.2f} ×", wording.percent(run["out_share"])]
                row += [wording.percent(run["lost"] / run["offered"])]
                rows.append([*row, *(wording.count(run[key]) for key in ("pods_max", "scalings", "reversals"))])
    head = ["", "pods · hours", "of the least", "outside of the SLO", "lost", "most pods", "changes", "turns"]
    return PlainTable("scenarios", "Scenarios", head, rows)


_OUTCOME = {"pod_seconds", "pods_over_least", "out_share", "lost", "pods_max", "scalings", "reversals"}


def _accuracy(result: Json) -> PlainTable:
    rows = [
        [text_at(row, "name"), accuracy_figure(row, "value"), limit_of(row)]
        for row in list_at(result, "accuracy", "figures")
        if mapping_at(row)
    ]
    return PlainTable("accuracy", "Accuracy", ["", "found", "limit"], rows)


def _farthest(result: Json) -> PlainTable:
    rows = [
        [one_line_of(text_at(row, key)) for key in ("item", "before", "after")]
        + [wording.precise(number_at(row, "distance"))]
        for row in list_at(result, "accuracy", "farthest")
        if mapping_at(row)
    ]
    head = ["item", "before", "after", "distance"]
    if all(not row[1] and not row[2] for row in rows):  # embeddings are not shown
        head, rows = [head[0], head[3]], [[row[0], row[3]] for row in rows]
    return PlainTable("farthest", "Answers that differ most", head, rows)


def _differences(result: Json) -> PlainTable:
    rows = []
    for entry in list_at(result, "differences"):
        show = _shown(text_at(entry, "metric"))
        ends = [wording.signed_percent(end) for end in interval_at(entry, "interval") or ()]
        known = "significant" if mapping_at(entry).get("significant") else "no significant change"
        figures = [show(number_at(entry, side)) for side in ("a", "b")]
        difference = wording.signed_percent(number_at(entry, "difference"))
        rows.append([text_at(entry, "name"), *figures, difference, " … ".join(ends), known])
    return PlainTable("differences", "Differences", ["", "a", "b", "difference", "95 % interval", ""], rows)


def _shown(metric: str) -> Callable[[float | None], str]:
    """How a compared figure is written, by its name in a point."""
    if metric.endswith("_us"):
        return wording.time
    return wording.percent if metric == "duty_cycle" else wording.rate if metric else wording.count


def _decisions(result: Json) -> PlainTable:
    """The tuner's choices in turn: why each value won, and by how much."""
    rows = []
    for choice in list_at(result, "tune", "choices"):
        if why := text_at(choice, "why"):
            over = text_at(choice, "lead", "over")
            beyond = wording.percent(number_at(choice, "lead", "beyond_noise"))
            lead = [over, text_at(choice, "lead", "gain"), beyond] if over else [wording.NOTHING] * 3
            name = f"{wording.words(text_at(choice, 'setting'))} {wording.setting(value_at(choice, 'chosen'))}"
            rows.append([one_line_of(name), *map(one_line_of, lead), one_line_of(why)])
    return PlainTable("decisions", "Why it won", ["chosen", "next best", "lead", "beyond noise", "because"], rows)


def _drift(result: Json) -> PlainTable:
    rows = []
    for entry in list_at(result, "drift"):
        unit = text_at(entry, "unit")
        show = wording.time if unit == "us" else wording.mebibytes if unit == "bytes" else wording.count
        ends = [show(number_at(entry, name)) for name in ("first", "last")]
        known = "no sure growth" if number_at(entry, "first") is not None else wording.NOTHING
        grows = "grows" if mapping_at(entry).get("grows") else known
        rows.append([text_at(entry, "name"), *ends, wording.signed_percent(number_at(entry, "growth")), grows])
    return PlainTable("drift", "Drift", ["", "at first", "at last", "growth", ""], rows)


def _stages(result: Json) -> PlainTable:
    table = stage_table(result) if text_at(result, "mode") == "breakdown" else []
    return PlainTable("stages", "Stages: mean time and share of end to end", (table or [[]])[0], table[1:])
