"""Tables of what single modes find, beside that of the points: the same on the terminal and in the report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fastqps.bench.report import wording
from fastqps.bench.report.reading import Json, interval_at, list_at, mapping_at, number_at, one_line_of, text_at
from fastqps.bench.report.stages import stage_table
from fastqps.bench.report.summary import accuracy_figure, limit_of


@dataclass(frozen=True)
class PlainTable:
    """Text in rows; the first cell of each names the row."""

    key: str
    title: str
    head: list[str]
    rows: list[list[str]]


def tables_of(result: Json) -> list[PlainTable]:
    """Those that hold something."""
    found = [_accuracy(result), _farthest(result), _differences(result), _drift(result), _stages(result)]
    return [table for table in found if table.rows]


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
