"""Histograms as files that other tools read: the percentile text of HdrHistogram (.hgrm), and its V2 log (.hlog)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from loadgen.atomic_file import replace_file
from loadgen.errors import UsageError
from loadgen.histogram import DIGITS, HIGHEST_NS, Histogram

if TYPE_CHECKING:
    from hdrh.histogram import HdrHistogram


def encode(histogram: Histogram) -> str:
    """HdrHistogram's V2 encoding: compressed, base64. Raises ``UsageError`` where the package is missing."""
    text: str = _library(histogram).encode().decode()
    return text


def require() -> None:
    """Raises ``UsageError`` where the package that encodes is missing: before a run, not after it."""
    try:
        import hdrh.histogram  # noqa: F401
    except ImportError:
        raise UsageError("histograms need the package hdrhistogram: pip install 'fastqps[bench]'") from None


def percentile_lines(rows: Iterable[tuple[float, float, int]]) -> list[str]:
    """The head, and a line for each row of value, percentile and count of the values up to it."""
    lines = [f"{'Value':>12} {'Percentile':>14} {'TotalCount':>10} {'1/(1-Percentile)':>14}", ""]
    for value, percentile, upto in rows:
        line = f"{value:12.3f} {percentile / 100:14.12f} {upto:10d}"
        lines.append(line + (f" {100 / (100 - percentile):14.2f}" if percentile < 100 else ""))
    return lines


def write_percentiles(path: Path, histogram: Histogram) -> None:
    """The text that HdrHistogram's plotters read; values in milliseconds."""
    percentiles = histogram.spectrum_percentiles()
    values_ms = (histogram.percentile_ns(percentile) / 1e6 for percentile in percentiles)
    lines = percentile_lines(zip(values_ms, percentiles, histogram.upto(percentiles), strict=True))
    deviation_ms = histogram.deviation_ns / 1e6
    lines += [
        f"#[Mean    = {histogram.mean_ns / 1e6:12.3f}, StdDeviation   = {deviation_ms:12.3f}]",
        f"#[Max     = {histogram.max_ns / 1e6:12.3f}, TotalCount     = {histogram.count:12d}]",
        f"#[Buckets = {32:12d}, SubBuckets     = {2048:12d}]",
    ]
    replace_file(path, "\n".join(lines) + "\n")


def write_log(path: Path, start_unix_s: float, intervals: Iterable[tuple[float, float, Histogram]]) -> None:
    """The V2 log: (start, length, histogram) of each interval, seconds from the start of the run; maxima in ms."""
    lines = [
        "#[Histogram log format version 1.3]",
        f"#[StartTime: {start_unix_s:.3f} (seconds since epoch)]",
        '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"',
    ]
    for start_s, length_s, histogram in intervals:
        lines.append(f"{start_s:.3f},{length_s:.3f},{histogram.max_ns / 1e6:.3f},{encode(histogram)}")
    replace_file(path, "\n".join(lines) + "\n")


def _library(histogram: Histogram) -> HdrHistogram:
    require()
    from hdrh.histogram import HdrHistogram

    found = HdrHistogram(1, HIGHEST_NS, DIGITS)
    np.ctypeslib.as_array(found.counts)[:] = histogram.counts
    used = np.flatnonzero(histogram.counts)
    if used.size:
        found.set_internal_tacking_values(int(used[0]), int(used[-1]), histogram.count)
    return found
