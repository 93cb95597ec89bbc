"""The verdict of a run, for all modes: each names the points that its answer rests on.

A verdict is as good as the worst of these points. A point of too few answers or steps decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fastqps.bench.results.point import BEYOND_MIN, FAILED, INVALID, UNSTABLE, Point
from fastqps.bench.results.result import Outcome, Result

ANSWERS_MIN = 2 * BEYOND_MIN  # with fewer, not even the median is known
STEPS_MIN = 10  # with fewer, one step at either end of a run is a difference that matters
MATTERS = {"rate": 0.1, "p50_us": 0.2, "p99_us": 0.3}  # shares, by figure
OVERLOADS = ("sweep", "overload")  # these exceed the capacity on purpose: UNSTABLE points are findings
_WORST_FIRST: tuple[Outcome, ...] = ("FAILED", "INVALID", "SLO_NOT_MET", "UNSTABLE", "INCONCLUSIVE", "VALID")


def conclude(result: Result, points: Iterable[Point], answer: Outcome = "VALID") -> None:
    """Sets the verdict to the worst of ``answer``, the mode's own, and of the points that it rests on; a note names
    the points in doubt."""
    doubts: dict[tuple[Outcome, str], list[str]] = {}
    for point in points:
        if (doubt := _doubt(point)) and not (doubt[0] == UNSTABLE and result.mode in OVERLOADS):
            doubts.setdefault(doubt, []).append(point.name)
    result.verdict = min((answer, *(outcome for outcome, _ in doubts)), key=_WORST_FIRST.index)
    result.notes += [why.format(" and ".join(dict.fromkeys(names))) for (_, why), names in doubts.items()]


def end_early(result: Result, points: Sequence[Point], how: Outcome, why: str) -> None:
    """The run was interrupted or failed: it leaves the points that were measured until then."""
    result.points, result.verdict = list(points), how
    result.notes.append(f"{why}; {len(points) or 'no'} point{'s' * (len(points) != 1)} had been measured")


def decides_nothing(point: Point) -> str:
    """Why the rate of a run cannot be compared with others; "" if it can."""
    doubt = _doubt(point)
    return doubt[1].format("this point") if doubt and doubt[0] != UNSTABLE else ""


def _doubt(point: Point) -> tuple[Outcome, str] | None:
    """The doubt that keeps a point from being VALID; None: there is none. The sentence has a place for names."""
    if point.verdict == FAILED:
        return "FAILED", "the server went away at {}"
    if not point.measured:
        return "INCONCLUSIVE", "no call was due or answered at {}: measure longer (--duration), or at a higher rate"
    if point.verdict == INVALID:
        return "INVALID", "the generator was the limit at {}: the server may be faster"
    if point.verdict == UNSTABLE:
        return "UNSTABLE", "the load was beyond the capacity at {}"
    for what, n, least in (("answers", point.answers, ANSWERS_MIN), ("steps", point.steps, STEPS_MIN)):
        if n is not None and n < least:
            return "INCONCLUSIVE", f"{{}}: fewer than {least} {what} decide nothing; measure longer (--duration)"
    return None
