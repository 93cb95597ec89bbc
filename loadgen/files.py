"""The files that a run leaves. Other tools read its histograms: HdrHistogram's percentile text (.hgrm), and its V2 log
(.hlog)."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from loadgen.atomic_file import replace_file
from loadgen.errors import UsageError
from loadgen.histogram import DIGITS, HIGHEST_NS, Histogram
from loadgen.results import MAIN
from loadgen.run import Run

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

    library = HdrHistogram(1, HIGHEST_NS, DIGITS)
    np.ctypeslib.as_array(library.counts)[:] = histogram.counts
    used = np.flatnonzero(histogram.counts)
    if used.size:
        library.set_internal_tacking_values(int(used[0]), int(used[-1]), histogram.count)
    return library


def require_folder(path: str) -> None:
    """Raises ``UsageError`` where no file can be made."""
    folder = Path(path).parent
    if Path(path).is_dir():
        raise UsageError(f"cannot write {path}: it is a folder")
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise UsageError(f"cannot write {path}: there is no folder {folder} that we may write to")


def histograms(run: Run) -> dict[str, str]:
    """The two main ones in HdrHistogram's V2 encoding."""
    return {name: encode(Histogram.of(getattr(run.result, name))) for name in MAIN}


def write_histograms(prefix: str, run: Run) -> None:
    """The .hgrm and .hlog files."""
    write_percentiles(Path(f"{prefix}.hgrm"), Histogram.of(run.result.response))
    write_percentiles(Path(f"{prefix}.service.hgrm"), Histogram.of(run.result.service))
    seconds = [(second.start_s, second.length_s, second.response) for second in run.timeline.measured()]
    began_s = run.result.start_unix_ns / 1e9 + run.plan.measure_from_ns / 1e9
    write_log(Path(f"{prefix}.hlog"), began_s, seconds)


def write_samples(path: str, run: Run) -> None:
    """Answers as JSON lines."""
    lines: list[str] = []
    for sample in run.result.samples:
        answer = base64.b64encode(sample.answer).decode()
        lines.append(json.dumps({"payload": sample.payload, "request_id": sample.request_id, "answer": answer}))
    replace_file(Path(path), "".join(line + "\n" for line in lines))


def write_calls(path: str, run: Run) -> None:
    """The measured calls as CSV, in the order in which they were due. ``t_us`` counts from the start of the run."""
    from loadgen._native import OUTCOMES  # not for a run that fails before

    calls = run.result.calls
    order = np.argsort(calls.intended_ns, kind="stable")
    intended_ns, end_ns = calls.intended_ns[order], calls.end_ns[order]
    columns = (intended_ns / 1e3, calls.payload[order], (end_ns - intended_ns) / 1e3, calls.outcome[order])
    lines = ["t_us,payload,response_us,outcome\n"]
    for t_us, payload, response_us, outcome in zip(*(column.tolist() for column in columns), strict=True):
        name = OUTCOMES[outcome] if outcome < len(OUTCOMES) else f"HTTP_{outcome - len(OUTCOMES) + 100}"
        lines.append(f"{t_us:.3f},{payload},{response_us:.3f},{name}\n")
    replace_file(Path(path), "".join(lines))
