"""Traffic as it was recorded."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from fastqps.bench.context import Context
from fastqps.bench.result import Result
from fastqps.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The trace."""
    parser.add_argument(
        "trace", metavar="TRACE", help="JSONL or CSV with t_us (payload, deadline_ms), or one µs a line"
    )
    parser.add_argument("--speedup", type=float, default=1.0, metavar="X", help="so many times as fast (default: 1)")


def run(context: Context) -> Result:
    """One point: all of the trace, whatever --duration says."""
    options, result = context.options, context.result
    trace = Path(options.trace)
    if not trace.is_file():
        raise ConfigError(f"there is no trace {trace}")
    load = dataclasses.replace(
        context.load, in_flight=None, trace=str(trace), speedup=options.speedup, warmup_s=0.0, duration_s=0.0
    )
    context.progress.expect(1)
    point = context.measure(
        {}, load, name=f"{trace.name}, {options.speedup:g} ×" if options.speedup != 1 else trace.name
    )
    result.best, result.verdict = 0, point.verdict
    if context.slo and point.verdict != "INVALID" and (violations := context.slo.violations(point)):
        result.verdict = "SLO_NOT_MET"
        result.notes += violations
    return result
