"""The files of a report, beside report.json."""

from __future__ import annotations

from pathlib import Path

from fastqps.bench.report.hgrm import latency_hgrm
from fastqps.bench.report.page import page
from fastqps.bench.report.points_csv import points_csv
from fastqps.bench.results.result import Result
from loadgen.atomic_file import replace_file

PAGE, POINTS, SPECTRUM = "report.html", "points.csv", "latency.hgrm"


def write_report(result: Result, folder: Path) -> list[Path]:
    """Writes report.html, points.csv and, if the result has a spectrum, latency.hgrm into a folder.

    Raises OSError where that cannot be.
    """
    texts = {PAGE: page(result), POINTS: points_csv(result), SPECTRUM: latency_hgrm(result)}
    return [replace_file(folder / name, text) for name, text in texts.items() if text is not None]
