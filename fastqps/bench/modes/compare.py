"""Compares two results, and tells differences from noise."""

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
from fastqps.bench.results.shape import fits, is_number
from fastqps.bench.statistics.intervals import blocks, difference_interval
from fastqps.bench.verdict import conclude, is_open
from fastqps.errors import ConfigError

METRICS = {"rate": "rate", "goodput": "goodput", "p50_us": "p50", "p99_us": "p99", "duty_cycle": "duty cycle"}
_BY_SECOND = {"rate": "ok", "p50_us": "p50_us", "p99_us": "p99_us"}
_SEARCHES = ("find-max", "sweep", "tune")
SECONDS_MIN = 8  # of a run, to be compared by its seconds
ERROR = 0.05  # of finding a difference, in any of the figures together, where there is none


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The two."""
    parser.add_argument("a", metavar="A", help="report.json, or the folder that it is in")
    parser.add_argument("b", metavar="B", help="the other: differences are B over A")


def run_alone(options: argparse.Namespace) -> Result:
    """``differences``: {name, point, metric, a, b, difference, interval, significant}; shares of A's."""
    a, b = read_result(Path(options.a)), read_result(Path(options.b))
    pairs = pairs_of(a, b)
    result = Result("compare", target=b.target, workload=b.workload, commit=b.commit)
    result.points = [
        replace(p, name=f"{letter}: {p.name}", verdict=_verdict(p))
        for pair in pairs
        for letter, p in zip("AB", pair, strict=True)
    ]
    found = [(pa, pb, metric, samples(pa, metric), samples(pb, metric)) for pa, pb in pairs for metric in METRICS]
    known = [row for row in found if len(row[3]) > 1 and len(row[4]) > 1 and fmean(row[3])]
    if not known:
        least = f"measure with --repetitions 5, or for at least {SECONDS_MIN} s"
        raise ConfigError(f"{options.a} and {options.b} say too little about their own noise: {least}")
    rows = [_row(*row, error=ERROR / len(known), alone=len(pairs) == 1) for row in known]
    late = {b.name for pair in pairs for b in pair[1:] if INVALID in map(_verdict, pair)}
    for row in rows:
        row["significant"] = row["significant"] and row["point"] not in late  # it may be the generator's own
    changed = [row for row in rows if row["significant"]]
    busy = [share for one in (a, b) if (share := one.environment.get(OTHERS)) is not None]
    result.environment = {OTHERS: max(busy)} if busy else {}
    result.extra = {"differences": rows, "a": _told(a, options.a), "b": _told(b, options.b)}
    result.notes += _caveats(a, b, pairs)
    if left_out := _left_out(found, known):
        result.notes.append(f"not compared, as too little is known of their noise: {', '.join(left_out)}")
    unclear = [row["name"] for row in rows if is_open(row["metric"], row["interval"])]
    if unclear:
        result.notes.append(
            f"the noise leaves room for a gain and for a loss that matter in {', '.join(unclear)}: measure longer "
            "(--duration), more often (--repetitions), or on a quieter machine"
        )
    conclude(result, result.points, "INCONCLUSIVE" if unclear else "VALID", overloads=a.mode)
    if not changed:
        if result.verdict == "VALID":
            result.notes.append("no significant change")
        if len(pairs) == 1:
            least = ", ".join(f"{row['name']} {50 * (row['interval'][1] - row['interval'][0]):.0f} %" for row in rows)
            result.notes.append(f"smaller changes than these could not have shown: {least}")
    return result


def _verdict(point: Point) -> Verdict:
    """The worst of its repetitions, which are the samples."""
    return INVALID if any(row.get("verdict") == INVALID for row in point.repetitions) else point.verdict


def _left_out(found: Sequence[tuple[Any, ...]], known: Sequence[tuple[Any, ...]]) -> list[str]:
    """The figures of a point that could not be compared."""
    compared = {(row[1].name, row[2]) for row in known}
    has = ((a, b, metric) for a, b, metric, *_ in found if (getattr(a, metric), getattr(b, metric)) != (None, None))
    return list(dict.fromkeys(METRICS[metric] for _, b, metric in has if (b.name, metric) not in compared))


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
    """The samples of a figure: one for each repetition, or for each block of seconds of one run."""
    if len(point.repetitions) > 1:
        return _numbers([row.get(metric) for row in point.repetitions])
    if metric not in _BY_SECOND:
        return []
    whole = [row for row in point.timeline if fits(long := row.get("length_s", 1), float) and long >= 0.99]
    values = _numbers([row.get(_BY_SECOND[metric]) for row in whole])
    return blocks(values) if len(values) >= SECONDS_MIN else []


def _numbers(values: Sequence[Any]) -> list[float]:
    """All of them; none where one is missing."""
    return [float(value) for value in values] if all(map(is_number, values)) else []


def _row(
    a: Point, b: Point, metric: str, before: Sequence[float], after: Sequence[float], *, error: float, alone: bool
) -> dict[str, Any]:
    base = fmean(before)
    interval = difference_interval(before, after, error)
    assert interval is not None  # two samples of each
    relative = [bound / base for bound in interval]
    return {
        "name": METRICS[metric] if alone else f"{METRICS[metric]}, {b.name}",
        "point": b.name,
        "metric": metric,
        "a": base,
        "b": fmean(after),
        "difference": fmean(after) / base - 1,
        "interval": relative,
        "significant": relative[0] > 0 or relative[1] < 0,
    }


def _told(result: Result, path: str) -> dict[str, Any]:
    return {"file": path, "commit": result.commit, "started": result.started, "command": result.command}


def _caveats(a: Result, b: Result, pairs: Sequence[tuple[Point, Point]]) -> list[str]:
    notes = []
    if any(len(point.repetitions) < 2 for pair in pairs for point in pair):
        notes.append(
            "the noise is that within single runs; what changes from one start to the next is not in the intervals: "
            "use --repetitions for that"
        )
    for name, of in (("machine", "environment"), ("workload", "workload"), ("target", "target")):
        keys = {"machine": ("cpu", "cores", "kernel"), "target": ("model", "device")}.get(name)
        left, right = getattr(a, of), getattr(b, of)
        differing = [k for k in (keys or {*left, *right}) if left.get(k) != right.get(k)]
        if differing:
            notes.append(f"not the same {name}: {', '.join(sorted(differing))}")
    return notes
