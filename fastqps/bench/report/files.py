"""The files of a report, beside report.json."""

from __future__ import annotations

from pathlib import Path

from fastqps.bench.report.page import page
from fastqps.bench.report.points import main_point
from fastqps.bench.report.points_csv import points_csv
from fastqps.bench.results.result import Result
from loadgen.atomic_file import replace_file
from loadgen.hgrm import percentile_lines

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
    mean, most = (point.response_time_us.get(name) or 0.0 for name in ("mean", "max"))
    lines += [f"#[Mean    = {mean / 1e3:12.3f}]", f"#[Max     = {most / 1e3:12.3f}, TotalCount     = {count:12.0f}]"]
    return "\n".join(lines) + "\n"
