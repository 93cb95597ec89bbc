"""report.html: one file, without scripts, fonts or anything else from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files

from fastqps.bench.report import wording
from fastqps.bench.report.columns import Column, columns_of
from fastqps.bench.report.ink import COLOURS
from fastqps.bench.report.labels import labels_of
from fastqps.bench.report.plots import plots_of
from fastqps.bench.report.reading import Json, list_at, mapping_at, name_at, one_line_of, points_of, text_at, verdict_at
from fastqps.bench.report.run_facts import run_facts
from fastqps.bench.report.summary import facts_of, severity, verdict_of
from fastqps.bench.report.tables import PlainTable, tables_of


def page(result: Json) -> str:
    """The whole document. Whatever the result lacks is left out; nothing in it is taken for markup."""
    mode = text_at(result, "mode") or "run"
    model, device = text_at(result, "target", "model"), text_at(result, "target", "device")
    about = " on ".join(filter(None, (model, device))) or text_at(result, "target", "address")
    title = f"fastqps bench {mode}" + (f": {about}" if about else "")
    parts = [
        f"<header><h1>{escape(title)}</h1>",
        f'<p class="about">{escape(text_at(result, "started"))}</p></header>',
        _verdict(result),
        *(f'<p class="label"><b>{escape(one.title)}:</b> {escape(one.text)}</p>' for one in labels_of(result)),
        "<h2>What was run</h2>",
        _definitions(run_facts(result)),
        *_notes(result),
        *_points_table(result),
        *(_plain_table(table) for table in tables_of(result)),
        *_plots(result),
        *([_FOOTER] if points_of(result) else []),
    ]
    head = (
        '<meta charset="utf-8"/><meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f"<title>{escape(title)}</title><style>{_style()}</style>"
    )
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n' + "\n".join(parts) + "\n</body></html>\n"


def _style() -> str:
    light, dark = (";".join(f"--{name}:{pair[k]}" for name, pair in COLOURS.items()) for k in (0, 1))
    return (
        f":root{{{light};--panel:#f4f6f8;--chosen:#e9f5ec}}"
        f"@media (prefers-color-scheme:dark){{:root{{{dark};--panel:#1d232a;--chosen:#1a2e21}}}}\n"
        + files("fastqps.bench.report").joinpath("page.css").read_text(encoding="utf-8")
    )


def _verdict(result: Json) -> str:
    verdict, facts = verdict_of(result), ", ".join(facts_of(result)).replace(", (", " (")
    shown = escape(verdict.replace("_", " "))
    return f'<p class="verdict {severity(verdict)}"><b>{shown}</b> {escape(facts)}.</p>'


def _definitions(facts: Sequence[tuple[str, str]]) -> str:
    rows = []
    for name, value in facts:
        shown = f"<code>{escape(value)}</code>" if name == "command" else escape(value)
        rows.append(f"<dt>{escape(name)}</dt><dd>{shown}</dd>")
    return f"<dl>{''.join(rows)}</dl>"


def _notes(result: Json) -> list[str]:
    notes = [one_line_of(str(note)) for note in list_at(result, "notes")]
    return ["<h2>Notes</h2>", f"<ul>{''.join(f'<li>{escape(note)}</li>' for note in notes)}</ul>"] if notes else []


def _points_table(result: Json) -> list[str]:
    points, columns = points_of(result), columns_of(result)
    if not points:
        return []
    numeric = [column.is_numeric(points) for column in columns]
    head = "".join(_head(column, right) for column, right in zip(columns, numeric, strict=True))
    every = list_at(result, "points")
    best = result.get("best")
    rows = []
    for index, point in enumerate(every):
        if not mapping_at(point):
            continue
        tone = severity(verdict) if (verdict := verdict_at(point)) else "good"
        kind = f"{tone}{' best' if index == best else ''}"
        cells = (_cell(column, point, right) for column, right in zip(columns[1:], numeric[1:], strict=True))
        rows.append(f'<tr class="{kind}"><th scope="row">{escape(columns[0].text(point))}</th>{"".join(cells)}</tr>')
    table = f'<table id="points-table"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    return ["<h2>Points</h2>", f'<div class="scroll">{table}</div>', *_table_legend(result, points)]


def _head(column: Column, right: bool) -> str:
    return f'<th scope="col"{"" if right else _LEFT}>{escape(column.head)}</th>'


_REMARKS_MAX = 6  # more of them are folded
_LEFT = ' class="text"'


def _cell(column: Column, point: Json, right: bool) -> str:
    value, kinds = column.value(point), []
    title = f"{column.key} = {value!r}" if column.key and isinstance(value, float) else ""
    if not right:
        kinds.append("text")
    if column.key == "verdict":
        kinds.append("status")
    if column.is_void(point):
        kinds.append("void")
        title = "fewer than 10 samples lie beyond this percentile"
    marks = (f' class="{" ".join(kinds)}"' if kinds else "") + (f' title="{escape(title)}"' if title else "")
    return f"<td{marks}>{escape(column.text(point))}</td>"


def _table_legend(result: Json, points: Sequence[Json]) -> list[str]:
    lines = []
    if any(column.is_void(point) for column in columns_of(result) for point in points):
        lines.append(f"{wording.NOTHING} or grey: fewer than 10 samples lie beyond this percentile; it says nothing.")
    lines += [
        f"{name_at(result, point) or 'point'} is {verdict}: {one_line_of(str(reason))}"
        for point in points
        if (verdict := verdict_at(point))
        for reason in list_at(point, "reasons")
    ]
    items = f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"
    if len(lines) > _REMARKS_MAX:
        return [f"<details><summary>{len(lines)} remarks on these points</summary>{items}</details>"]
    return [items] if lines else []


def _plain_table(table: PlainTable) -> str:
    heads = "".join(f'<th scope="col">{escape(text)}</th>' for text in table.head)
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>{"".join(f"<td>{escape(text)}</td>" for text in row[1:])}</tr>'
        for row in table.rows
    )
    return (
        f'<h2>{escape(table.title)}</h2><div class="scroll"><table id="{table.key}-table">'
        f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _plots(result: Json) -> list[str]:
    figures = [
        f'<figure id="{plot.key}"><h3>{escape(plot.title)}</h3>{plot.svg}'
        f"<figcaption>{escape(plot.reading)}</figcaption></figure>"
        for plot in plots_of(result)
    ]
    return ["<h2>Plots</h2>", f'<div class="plots">{"".join(figures)}</div>'] if figures else []


_FOOTER = (
    "<footer><p>Response time counts from when a request should have been sent, service time from when it was. "
    "Goodput: OK answers within the objective's latency. Duty cycle: the share of the time in which the device ran "
    "something; copies and gaps between steps are idle time. INVALID: the generator was the limit, not the server. "
    "UNSTABLE: the queue grew throughout, so that the figures depend on how long was measured. INCONCLUSIVE: what was "
    "measured does not decide what was asked; the notes say what would. The same figures: "
    "report.json and points.csv beside this file; latency.hgrm for HdrHistogram's plotter.</p></footer>"
)
