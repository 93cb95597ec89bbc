"""The files of a report, beside report.json. report.html is one file, without scripts, fonts or anything else from
elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader

from fastqps.bench.report import wording
from fastqps.bench.report.plots import plots_of
from fastqps.bench.report.points import main_point, name_of, text, verdict_of
from fastqps.bench.report.points_csv import points_csv
from fastqps.bench.report.run_facts import labels_of, run_facts
from fastqps.bench.report.summary import facts_of, severity
from fastqps.bench.report.tables import Table, tables_of
from fastqps.bench.results.result import Result
from loadgen.atomic_file import replace_file
from loadgen.files import percentile_lines

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
    remarks = [f"{wording.NOTHING} or grey: {_VOID}; it says nothing."] if void else []
    for point in result.points:
        name = name_of(result, point)
        remarks += [f"{name} is {verdict_of(point)}: {wording.one_line(reason)}" for reason in point.reasons]
    return remarks


PAGE, POINTS, SPECTRUM = "report.html", "points.csv", "latency.hgrm"


def write_report(result: Result, folder: Path) -> list[Path]:
    """Writes report.html, points.csv and, if the result has a spectrum, latency.hgrm into a folder.

    Raises OSError where that cannot be.
    """
    texts = {PAGE: page(result), POINTS: points_csv(result), SPECTRUM: _spectrum(result)}
    return [replace_file(folder / name, text) for name, text in texts.items() if text is not None]


def _spectrum(result: Result) -> str | None:
    """The latencies of the point that stands for the run, as HdrHistogram's plotters read them, in ms; None: it has no
    spectrum."""
    point = main_point(result)
    pairs = point.spectrum.get("response") if point else None
    count = point.response_time_us.get("count") if point else None
    if not point or not pairs or not count:
        return None
    lines = percentile_lines((us / 1e3, percentile, round(count * percentile / 100)) for percentile, us in pairs)
    mean, largest = (point.response_time_us.get(name) or 0.0 for name in ("mean", "max"))
    lines += [f"#[Mean    = {mean / 1e3:12.3f}]", f"#[Max     = {largest / 1e3:12.3f}, TotalCount     = {count:12.0f}]"]
    return "\n".join(lines) + "\n"
