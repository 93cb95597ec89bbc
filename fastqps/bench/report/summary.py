"""A run in one sentence: its verdict, and the figures that it was made for."""

from __future__ import annotations

from collections.abc import Callable

from fastqps.bench.report import wording
from fastqps.bench.report.points import (
    NOT_RUN,
    fates,
    main_point,
    rate_of,
    response_us,
    setting_of,
    stage_means,
    stage_shares,
    steady,
    verdict_of,
)
from fastqps.bench.results.point import Point
from fastqps.bench.results.result import Result

GOOD, DOUBTFUL, BAD = "good", "doubtful", "bad"
_SEVERITY = {"VALID": GOOD, **dict.fromkeys(("UNSTABLE", "INCONCLUSIVE", "INTERRUPTED", NOT_RUN), DOUBTFUL)}


def severity(verdict: str) -> str:
    """GOOD, DOUBTFUL or BAD, for colours."""
    return _SEVERITY.get(verdict, BAD)


def facts_of(result: Result) -> list[str]:
    """The figures of the sentence, the most important ones first. It says so if nothing was measured."""
    if not result.points:
        return ["no point was measured"]
    if result.verdict in ("INTERRUPTED", "FAILED"):  # a mode's own sentence needs all of its points
        return _point_facts(result) if len(result.points) == 1 else [f"{len(result.points)} points were measured"]
    facts = _MODES.get(result.mode, _point_facts)(result)
    if result.verdict == "INVALID":
        facts.insert(0, "the generator was the limit")
    n_bad = sum(verdict_of(point) == "INVALID" for point in result.points)
    if n_bad and len(result.points) > 1:
        facts.append(f"{n_bad} of {len(result.points)} points INVALID")
    return facts


def slo_text(result: Result) -> str:
    """The objective as text: p99 ≤ 20 ms, errors ≤ 0.1 %; "" without one."""
    parts = []
    for name, limit in (result.slo or {}).items():
        if name.endswith("_us"):
            parts.append(f"{wording.statistic(name[:-3])} ≤ {wording.limit(limit)}")
        elif name == "error_ratio":
            parts.append(f"errors ≤ {wording.percent(limit)}")
    return ", ".join(parts)


def _point_facts(result: Result, rate_word: str = "") -> list[str]:
    point, facts = main_point(result), []
    if point is None:
        return ["nothing was measured"]
    rate, offered = rate_of(point), point.offered_rate
    if rate is not None:
        of_offered = "" if rate_word or offered is None else f" of {wording.rate(offered)} offered"
        facts.append(f"{rate_word}{wording.rate(rate)}{of_offered}")
    facts += _latency(result, point)
    if point.goodput is not None and offered:
        facts.append(f"goodput {wording.percent(min(1.0, point.goodput / offered))}")
    if point.duty_cycle is not None:
        facts.append(f"duty cycle {wording.percent(point.duty_cycle)}")
    if (n := point.response_time_us.get("count")) is not None:
        facts.append(f"(n = {wording.count(n)})")
    return facts or ["nothing was measured"]


def _latency(result: Result, point: Point) -> list[str]:
    p99, limit = response_us(point, "p99"), (result.slo or {}).get("p99_us")
    if p99 is None:
        return []
    against = "" if limit is None else f" {'≤' if p99 <= limit else '>'} {wording.limit(limit)}"
    return [f"p99 {wording.time(p99)}{against}"]


def _find_max(result: Result) -> list[str]:
    slo = slo_text(result) or "the objective"
    if result.best_point is None:
        undecided = result.verdict == "INCONCLUSIVE"
        return [f"it is not known which load meets {slo}" if undecided else f"no load met {slo}"]
    above = result.extra.get("upper_bound")
    facts = _point_facts(result, "at least " if result.extra.get("lower_bound") or above is not None else "max ")
    return facts if above is None else [facts[0], f"less than {wording.rate(above)}", *facts[1:]]


def _tune(result: Result) -> list[str]:
    best = result.best_point
    if best is None:
        known = result.verdict != "INCONCLUSIVE"
        return ["no setting met the objective" if result.slo and known else "no best setting was found"]
    settings = ", ".join(f"{wording.spaced(name)} {setting_of(best, name)}" for name in best.settings)
    word = "best" if result.verdict == "VALID" else "best so far"
    gain = result.extra.get("tune", {}).get("over_start")
    facts = [f"{word}: {settings or best.name}", *_point_facts(result)]
    return [*facts, f"{gain} over the start"] if gain else facts


def _breakdown(result: Result) -> list[str]:
    point = result.points[0]
    means = stage_means(point)
    if not means:
        return _point_facts(result)
    shares = ", ".join(f"{part} {wording.percent(share)}" for part, share in stage_shares(means).items())
    return [f"{point.name}: {wording.time(sum(means.values()))} end to end", shares]


def _overload(result: Result) -> list[str]:
    points = [point for point in steady(result.points) if verdict_of(point) != "INVALID" and _good_rate(point)]
    heaviest = max((p for p in points if p.offered_rate), key=lambda point: point.offered_rate or 0.0, default=None)
    if heaviest is None:
        return _point_facts(result)
    peak = max(_good_rate(point) for point in points)
    refused = fates(heaviest.status)["refused"] / max(1, heaviest.answers)
    return [
        f"at {wording.rate(heaviest.offered_rate)} offered goodput is {wording.percent(_good_rate(heaviest) / peak)} "
        f"of its peak {wording.rate(peak)}",
        f"{wording.percent(refused)} refused",
    ]


def _good_rate(point: Point) -> float:
    """OK answers per second within the objective; without one, OK answers."""
    return point.rate if point.goodput is None else point.goodput


_MODES: dict[str, Callable[[Result], list[str]]] = {
    "find-max": _find_max,
    "sweep": lambda result: _find_max(result) if result.best_point else _point_facts(result),
    "tune": _tune,
    "breakdown": _breakdown,
    "overload": _overload,
}
