"""Traffic as it was recorded."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from fastqps.bench.flags import Common
from fastqps.bench.measure.context import Context
from fastqps.bench.measure.load import LoadSpec
from fastqps.bench.modes.rate import judge
from fastqps.bench.results.result import Result
from fastqps.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The trace."""
    parser.add_argument(
        "trace", metavar="TRACE", help="JSONL or CSV with t_us (payload, deadline_ms), or one µs a line"
    )
    parser.add_argument("--speedup", type=float, default=1.0, metavar="X", help="so many times as fast (default: 1)")


def check(options: argparse.Namespace, common: Common) -> None:
    """Checks that there is a trace."""
    if not Path(options.trace).is_file():
        raise ConfigError(f"there is no trace {options.trace}")
    load_of(options, common.load)


def run(context: Context) -> Result:
    """One point: all of the trace, whatever --duration says."""
    load = load_of(context.options, context.load)
    context.progress.expect(1)
    name = Path(load.trace).name
    judge(context, context.measure({}, load, name=name if load.speedup == 1 else f"{name}, {load.speedup:g} × as fast"))
    return context.result


def load_of(options: argparse.Namespace, load: LoadSpec) -> LoadSpec:
    """What the flags say."""
    return dataclasses.replace(
        load, in_flight=None, trace=options.trace, speedup=options.speedup, warmup_s=0.0, duration_s=0.0
    )
