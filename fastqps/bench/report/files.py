"""The files of a report, beside report.json."""

from __future__ import annotations

from pathlib import Path

from fastqps.bench.report.hgrm import latency_hgrm
from fastqps.bench.report.page import page
from fastqps.bench.report.points_csv import points_csv
from fastqps.bench.report.reading import Json
from fastqps.bench.results.whole import write_whole

PAGE, POINTS, SPECTRUM = "report.html", "points.csv", "latency.hgrm"


def write_report(result: Json, folder: Path) -> list[Path]:
    """Writes report.html, points.csv and, if there is one to show, latency.hgrm of a result's JSON into a folder.

    OSError where that cannot be.
    """
    texts = {PAGE: page(result), POINTS: points_csv(result)}
    if (spectrum := latency_hgrm(result)) is not None:
        texts[SPECTRUM] = spectrum
    return [write_whole(folder / name, text) for name, text in texts.items()]
