"""Tables of what single modes find, beside that of the points: the same on the terminal and in the report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fastqps.bench.report import wording
from fastqps.bench.report.points import number, text
from fastqps.bench.report.stages import stage_table
from fastqps.bench.results.result import Result


@dataclass(frozen=True)
class PlainTable:
    """Text in rows; the first cell of each names the row."""

    key: str
    title: str
    head: list[str]
    rows: list[list[str]]


def tables_of(result: Result) -> list[PlainTable]:
    """The tables that are not empty."""
    makers = (_differences, _drift, _stages, _decisions)
    return [table for make in makers if (table := make(result)).rows]


def _differences(result: Result) -> PlainTable:
    rows = []
    for entry in result.extra.get("differences", ()):
        show = _shown(entry["metric"])
        ends = " … ".join(wording.signed_percent(end) for end in entry["interval"])
        known = "significant" if entry["significant"] else "no significant change"
        figures = [show(entry["a"]), show(entry["b"]), wording.signed_percent(entry["difference"])]
        rows.append([wording.one_line(entry["name"]), *figures, ends, known])
    return PlainTable("differences", "Differences", ["", "a", "b", "difference", "95 % interval", ""], rows)


def _shown(metric: str) -> Callable[[float | None], str]:
    """Formats a compared figure by its name in a point."""
    if metric.endswith("_us"):
        return wording.time
    return wording.percent if metric == "duty_cycle" else wording.rate


def _decisions(result: Result) -> PlainTable:
    """The tuner's choices in turn: why each value won, and by how much."""
    rows = []
    for choice in result.extra.get("tune", {}).get("choices", ()):
        if why := text(choice, "why"):
            lead = choice.get("lead") or {}
            cells = [text(lead, "over"), text(lead, "gain"), wording.percent(number(lead, "beyond_noise"))]
            name = wording.one_line(f"{wording.words(choice['setting'])} {wording.setting(choice['chosen'])}")
            rows.append([name, *(cells if cells[0] else [wording.NOTHING] * 3), why])
    return PlainTable("decisions", "Why it won", ["chosen", "next best", "lead", "beyond noise", "because"], rows)


def _drift(result: Result) -> PlainTable:
    rows = []
    for entry in result.extra.get("drift", ()):
        show = {"us": wording.time, "bytes": wording.mebibytes}.get(entry["unit"], wording.count)
        known = wording.NOTHING if entry["first"] is None else "no sure growth"
        ends = [show(entry["first"]), show(entry["last"]), wording.signed_percent(entry["growth"])]
        rows.append([entry["name"], *ends, "grows" if entry["grows"] else known])
    return PlainTable("drift", "Drift", ["", "at first", "at last", "growth", ""], rows)


def _stages(result: Result) -> PlainTable:
    head, *rows = (stage_table(result.points) if result.mode == "breakdown" else []) or [[]]
    return PlainTable("stages", "Stages: mean time and share of end to end", head, rows)
