"""report.html, beside report.json: one file, without scripts, fonts or anything else from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader

from fastqps.bench.report import wording
from fastqps.bench.report.plots import plots_of
from fastqps.bench.report.points import name_of, text, verdict_of
from fastqps.bench.report.run_facts import labels_of, run_facts
from fastqps.bench.report.summary import facts_of, severity
from fastqps.bench.report.tables import Table, tables_of
from fastqps.bench.results.result import Result
from loadgen.atomic_file import replace_file

_REMARKS_MAX = 6  # more of them are folded
_VOID = "fewer than 10 samples lie beyond this percentile"
_PAGES = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True)


def page(result: Result) -> str:
    """The whole document. What the result lacks is left out; nothing in it is taken for markup."""
    model, device, address = (text(result.target, key) for key in ("model", "device", "address"))
    about = " on ".join(filter(None, (model, device))) or address
    tables = tables_of(result)
    return _PAGES.get_template("page.html.j2").render(
        title=f"fastqps bench {result.mode}" + (f": {about}" if about else ""),
        result=result,
        facts=wording.one_line(", ".join(facts_of(result)).replace(", (", " (")),
        severity=severity,
        labels=labels_of(result),
        run_facts=run_facts(result),
        notes=[wording.one_line(note) for note in result.notes],
        remarks=_remarks(result, tables),
        remarks_max=_REMARKS_MAX,
        void=_VOID,
        tables=tables,
        plots=plots_of(result),
    )


def _remarks(result: Result, tables: Sequence[Table]) -> list[str]:
    """Why some points are in doubt."""
    void = any(cell.void for table in tables for row in table.rows for cell in row.cells)
    remarks = [f"{wording.NOTHING}: {_VOID}."] if void else []

    for point in result.points:
        name = name_of(result, point)
        remarks += [f"{name} is {verdict_of(point)}: {wording.one_line(reason)}" for reason in point.reasons]
    return remarks


PAGE = "report.html"


def write_report(result: Result, folder: Path) -> Path:
    """Writes report.html into a folder. Raises OSError where that cannot be."""
    return replace_file(folder / PAGE, page(result))
