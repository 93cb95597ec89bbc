"""Compares two results, and tells differences from noise: that of their repetitions."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from fastqps.bench.results.environment import OTHERS
from fastqps.bench.results.point import INVALID, Point, Verdict
from fastqps.bench.results.result import Result, read_result
from fastqps.bench.statistics.intervals import difference_interval
from fastqps.bench.verdict import conclude, is_open
from fastqps.errors import ConfigError
from fastqps.files.shape import is_number

METRICS = {"rate": "rate", "goodput": "goodput", "p50_us": "p50", "p99_us": "p99", "duty_cycle": "duty cycle"}
_SEARCHES = ("find-max", "sweep", "tune")
_SAME = {"environment": ("cpu", "cores", "kernel"), "target": ("model", "device"), "workload": ()}  # (): every key
ERROR = 0.05  # of finding a difference, in any of the figures together, where there is none


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The two."""
    parser.add_argument("a", metavar="A", help="report.json, or the folder that it is in")
    parser.add_argument("b", metavar="B", help="the other: differences are B over A")


def run_alone(options: argparse.Namespace) -> Result:
    """``differences``: {name, metric, a, b, difference, interval, significant}; shares of A's."""
    a, b = read_result(Path(options.a)), read_result(Path(options.b))
    pairs = pairs_of(a, b)
    result = Result("compare", target=b.target, workload=b.workload, commit=b.commit)
    measured = [(pa, pb, metric, samples(pa, metric), samples(pb, metric)) for pa, pb in pairs for metric in METRICS]
    known = [row for row in measured if min(len(row[3]), len(row[4])) > 1 and fmean(row[3])]
    if not known:
        raise ConfigError(f"{options.a} and {options.b} say nothing about their noise: measure with --repetitions 5")
    rows = result.extra["differences"] = [_row(*row, ERROR / len(known), alone=len(pairs) == 1) for row in known]
    busy = [share for one in (a, b) if (share := one.environment.get(OTHERS)) is not None]
    result.environment = {OTHERS: max(busy)} if busy else {}
    for of, keys in _SAME.items():
        left, right = getattr(a, of), getattr(b, of)
        if differing := sorted(key for key in keys or {*left, *right} if left.get(key) != right.get(key)):
            result.notes.append(f"not the same {of}: {', '.join(differing)}")
    unclear = [row["name"] for row in rows if is_open(row["metric"], row["interval"])]
    if unclear:
        result.notes.append(
            f"the noise leaves room for a gain and for a loss that matter in {', '.join(unclear)}: measure longer "
            "(--duration), more often (--repetitions), or on a quieter machine"
        )
    named = [(letter, point) for pair in pairs for letter, point in zip("AB", pair, strict=True)]
    result.points = [replace(p, name=f"{letter}: {p.name}", verdict=_verdict(p)) for letter, p in named]
    conclude(result, result.points, "INCONCLUSIVE" if unclear else "VALID", overloads=a.mode)
    return result


def pairs_of(a: Result, b: Result) -> list[tuple[Point, Point]]:
    """Points of the same name; of two searches what they found; of two single points these. ``ConfigError``: none."""
    if len(a.points) == len(b.points) == 1:
        return [(a.points[0], b.points[0])]
    if a.mode == b.mode and a.mode in _SEARCHES and a.best_point and b.best_point:
        return [(a.best_point, b.best_point)]
    by_name = {point.name: point for point in a.points}
    pairs = [(by_name[point.name], point) for point in b.points if point.name in by_name]
    if not pairs:
        raise ConfigError("the two results have no point in common: names of points have to be the same")
    return pairs


def samples(point: Point, metric: str) -> list[float]:
    """A figure of each repetition; none where one of them is not known."""
    values: list[Any] = [row.get(metric) for row in point.repetitions]
    return [float(value) for value in values] if all(map(is_number, values)) else []


def _row(
    a: Point, b: Point, metric: str, before: Sequence[float], after: Sequence[float], error: float, *, alone: bool
) -> dict[str, Any]:
    base = fmean(before)
    interval = [bound / base for bound in difference_interval(before, after, error) or ()]
    late = INVALID in (_verdict(a), _verdict(b))  # the difference may be the generator's own
    return {
        "name": METRICS[metric] if alone else f"{METRICS[metric]}, {b.name}",
        "metric": metric,
        "a": base,
        "b": fmean(after),
        "difference": fmean(after) / base - 1,
        "interval": interval,
        "significant": not late and not interval[0] <= 0 <= interval[1],
    }


def _verdict(point: Point) -> Verdict:
    """The worst of its repetitions, which are the samples."""
    return INVALID if any(row.get("verdict") == INVALID for row in point.repetitions) else point.verdict
