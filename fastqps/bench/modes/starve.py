"""Applies the same load while the server has fewer and fewer cores, with and without a noisy neighbour."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

from fastqps.bench.flags import Common
from fastqps.bench.lists import parse_counts
from fastqps.bench.measure.context import Context
from fastqps.bench.measure.load import LoadSpec
from fastqps.bench.measure.neighbour import Neighbour
from fastqps.bench.results.point import INVALID, Point
from fastqps.bench.results.result import Result
from fastqps.errors import ConfigError
from fastqps.host import machine

PEAK_SHARE = 0.7  # of the peak on all cores: a load that the whole server carries with ease
IN_FLIGHT = 256
CORES_MAX = 4096


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The load, and the numbers of cores."""
    parser.add_argument(
        "--rate", type=float, metavar="R", help=f"calls per second (default: {PEAK_SHARE:.0%} of the peak on all cores)"
    )
    parser.add_argument(
        "--cores",
        metavar="N,…",
        default="",
        help="cores that the server is held to (default: all, then 16, 8, 4, 2, 1)",
    )
    parser.add_argument("--no-neighbour", action="store_true", help="leave out the runs beside a noisy neighbour")


def check(options: argparse.Namespace, common: Common) -> None:
    """The load and the cores, as far as the machine is not asked."""
    if options.address:
        raise ConfigError("starve holds the server to fewer cores, so it starts one itself; leave out --address")
    if options.rate is not None:
        common.load.at_rate(options.rate)
    if options.cores:
        parse_counts("cores", options.cores, most=CORES_MAX)


def run(context: Context) -> Result:
    """A point for each number of cores, without and with a neighbour; ``starve`` holds what of the rate is kept."""
    result, options = context.result, context.options
    cpus = context.pinning.server or machine.allowed_cpus()
    counts = _counts(options.cores, len(cpus))
    neighbours = (False,) if options.no_neighbour else (False, True)
    context.progress.expect((len(counts) * len(neighbours) + (options.rate is None)) * context.repetitions)
    load = _load(context, cpus)
    rows: list[dict[str, Any]] = []
    result.extra["starve"] = rows
    for count, noisy in _cases(counts, neighbours):
        name = _cores(count) + (", noisy neighbour" if noisy else "")
        held = cpus[:count]
        with Neighbour(held) if noisy else nullcontext():
            point = context.measure({}, load, name=name, server_cpus=held)
        point.settings = {"cores": count, "neighbour": noisy}
        rows.append(_row(point, load, count, noisy))
    if all(point.verdict == "INVALID" for point in result.points):
        result.verdict = "INVALID"
        shared = "they share their CPUs (--pin off)" if not context.pinning.server else "see the reasons of the points"
        context.note(f"the load generator could not keep up beside the server: {shared}")
    return result


def _cores(count: int) -> str:
    return f"{count} core{'s' * (count > 1)}"


def _cases(counts: list[int], neighbours: tuple[bool, ...]) -> Iterator[tuple[int, bool]]:
    yield from ((count, noisy) for count in counts for noisy in neighbours)


def _counts(text: str, available: int) -> list[int]:
    if text:
        return sorted(parse_counts("cores", text, most=available), reverse=True)
    return [available, *(n for n in (16, 8, 4, 2, 1) if n < available)]


def _load(context: Context, cpus: tuple[int, ...]) -> LoadSpec:
    """The load of ``--rate``, or a share of the peak, which is measured first."""
    if context.options.rate is not None:
        return context.load.at_rate(context.options.rate)
    peak = context.measure({}, context.load.closed(IN_FLIGHT), name="peak", keep=False, server_cpus=cpus)
    context.note(f"on {_cores(len(cpus))} the peak is {peak.rate:,.0f}/s; offered are {PEAK_SHARE:.0%} of it")
    return context.load.at_rate(PEAK_SHARE * peak.rate)


def _row(point: Point, load: LoadSpec, cores: int, noisy: bool) -> dict[str, Any]:
    """``kept``: OK answers over what was offered, not known where the generator was the limit. Random arrivals are more
    or fewer than the rate that was asked for."""
    offered = point.offered_rate or load.rate
    kept = point.rate / offered if offered and point.verdict != INVALID else None
    return {"cores": cores, "neighbour": noisy, "rate": point.rate, "kept": kept, "p99_us": point.p99_us}
