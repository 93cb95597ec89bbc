"""latency.hgrm: the percentiles of response times as text that HdrHistogram's plotters read, in milliseconds."""

from __future__ import annotations

from fastqps.bench.report.points import main_point
from fastqps.bench.results.result import Result
from loadgen.hgrm import percentile_lines


def latency_hgrm(result: Result) -> str | None:
    """The latencies of the point that stands for the run; None if it has no spectrum."""
    point = main_point(result)
    pairs = point.spectrum.get("response") if point else None
    count = point.response_time_us.get("count") if point else None
    if not point or not pairs or not count:
        return None
    lines = percentile_lines((us / 1e3, percentile, round(count * percentile / 100)) for percentile, us in pairs)
    mean, most = (point.response_time_us.get(name) or 0.0 for name in ("mean", "max"))
    lines += [f"#[Mean    = {mean / 1e3:12.3f}]", f"#[Max     = {most / 1e3:12.3f}, TotalCount     = {count:12.0f}]"]
    return "\n".join(lines) + "\n"
