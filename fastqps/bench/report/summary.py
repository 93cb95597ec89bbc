"""A run in one sentence: its verdict, and the figures that it was made for."""

from __future__ import annotations

from collections.abc import Callable

from fastqps.bench.report import wording
from fastqps.bench.report.reading import (
    NOT_RUN,
    Json,
    answers_by_fate,
    best_of,
    interval_at,
    list_at,
    mapping_at,
    number_at,
    numbers_at,
    points_of,
    rate_at,
    response_us,
    setting_at,
    steady_points,
    text_at,
    verdict_at,
)
from fastqps.bench.report.stages import stage_means, stage_shares

GOOD, DOUBTFUL, BAD = "good", "doubtful", "bad"
INCONCLUSIVE = "INCONCLUSIVE"
_SEVERITY = {"VALID": GOOD, **dict.fromkeys(("UNSTABLE", INCONCLUSIVE, "INTERRUPTED", NOT_RUN), DOUBTFUL)}


def verdict_of(result: Json) -> str:
    """The result's verdict; if it has none, the worst of its points'."""
    own = text_at(result, "verdict")
    if own:
        return own
    found = {verdict_at(point) for point in points_of(result)}
    return next((verdict for verdict in ("INVALID", "UNSTABLE", "VALID") if verdict in found), "NOTHING MEASURED")


def severity(verdict: str) -> str:
    """GOOD, DOUBTFUL or BAD, for colours."""
    return _SEVERITY.get(verdict, BAD)


def one_line(result: Json) -> str:
    """For the terminal: ``VALID  max 1,184/s  p99 18.3 ms ≤ 20 ms  goodput 99.7 %  (n = 71,040)``."""
    return "  ".join([verdict_of(result), *facts_of(result)])


def facts_of(result: Json) -> list[str]:
    """The figures of the sentence, the most important ones first; says so if nothing was measured."""
    points = points_of(result)
    if text_at(result, "mode") == "accuracy":
        return _accuracy(result)
    if text_at(result, "mode") == "autoscale":
        return _autoscale(result)
    if not points:
        return ["no point was measured"]
    tell = _MODES.get(text_at(result, "mode"), _point_facts)
    facts = tell(result)
    if verdict_of(result) == "INVALID":
        facts.insert(0, "the generator was the limit")
    n_bad = sum(verdict_at(point) == "INVALID" for point in points)
    if n_bad and len(points) > 1:
        facts.append(f"{n_bad} of {len(points)} points INVALID")
    return facts


def main_point(result: Json) -> Json:
    """The point that stands for the run: the best, else the last one with a steady load."""
    points = steady_points(result) or points_of(result)
    return best_of(result) or (points[-1] if points else {})


def slo_text(result: Json) -> str:
    """The objective as text: p99 ≤ 20 ms, errors ≤ 0.1 %; '' without one."""
    slo, parts = mapping_at(result, "slo"), []
    for name in slo:
        limit = number_at(slo, name)
        if limit is not None and name.endswith("_us"):
            parts.append(f"{wording.statistic(name[:-3])} ≤ {wording.limit(limit)}")
        elif limit is not None and name == "error_ratio":
            parts.append(f"errors ≤ {wording.percent(limit)}")
    return ", ".join(parts)


def breaks_slo(result: Json, point: Json) -> bool:
    """True if a percentile or the share of errors is known to be beyond what the run's objective allows."""
    slo = numbers_at(result, "slo")
    beyond = [us for name, us in slo.items() if name.endswith("_us") and (response_us(point, name[:-3]) or 0.0) > us]
    fates = answers_by_fate(point)
    total = sum(fates.values())
    failed = 1 - fates["ok"] / total if total > 0 else 0.0
    return bool(beyond) or failed > slo.get("error_ratio", 1.0)


def _point_facts(result: Json, rate_word: str = "") -> list[str]:
    point = main_point(result)
    facts = []
    rate, offered = rate_at(point), number_at(point, "offered_rate")
    if rate is not None:
        of_offered = "" if rate_word or offered is None else f" of {wording.rate(offered)} offered"
        facts.append(f"{rate_word}{wording.rate(rate)}{of_offered}")
    facts += [*_latency(result, point), *_goodput(point)]
    duty, n = number_at(point, "duty_cycle"), number_at(point, "response_time_us", "count")
    if duty is not None:
        facts.append(f"duty cycle {wording.percent(duty)}")
    if n is not None:
        facts.append(f"(n = {wording.count(n)})")
    return facts or ["nothing was measured"]


def _latency(result: Json, point: Json) -> list[str]:
    p99, limit = response_us(point, "p99"), number_at(result, "slo", "p99_us")
    if p99 is None:
        return []
    if limit is None:
        return [f"p99 {wording.time(p99)}"]
    return [f"p99 {wording.time(p99)} {'≤' if p99 <= limit else '>'} {wording.limit(limit)}"]


def _goodput(point: Json) -> list[str]:
    goodput, offered = number_at(point, "goodput"), number_at(point, "offered_rate")
    return [f"goodput {wording.percent(min(1.0, goodput / offered))}"] if goodput is not None and offered else []


def _find_max(result: Json) -> list[str]:
    slo = slo_text(result) or "the objective"
    if best_of(result) is None:
        undecided = verdict_of(result) == INCONCLUSIVE
        return [f"it is not known which load meets {slo}" if undecided else f"no load met {slo}"]
    above = number_at(result, "upper_bound")
    facts = _point_facts(result, "at least " if result.get("lower_bound") or above is not None else "max ")
    return facts if above is None else [facts[0], f"less than {wording.rate(above)}", *facts[1:]]


def _tune(result: Json) -> list[str]:
    best = best_of(result)
    if best is None:
        known = verdict_of(result) != INCONCLUSIVE
        return ["no setting met the objective" if result.get("slo") and known else "no best setting was found"]
    settings = ", ".join(f"{wording.words(name)} {setting_at(best, name)}" for name in mapping_at(best, "settings"))
    word = "best" if verdict_of(result) == "VALID" else "best so far"
    gain = text_at(result, "tune", "over_start")
    facts = [f"{word}: {settings or text_at(best, 'name')}", *_point_facts(result, "")]
    return [*facts, f"{gain} over the start"] if gain else facts


def _breakdown(result: Json) -> list[str]:
    point = points_of(result)[0]
    means = stage_means(point)
    if not means:
        return _point_facts(result)
    shares = ", ".join(f"{part} {wording.percent(share)}" for part, share in stage_shares(means).items())
    return [f"{text_at(point, 'name')}: {wording.time(sum(means.values()))} end to end", shares]


def _compare(result: Json) -> list[str]:
    differences = [entry for entry in list_at(result, "differences") if isinstance(entry, dict)]
    changed = [entry for entry in differences if entry.get("significant")]
    if not changed:
        return ["nothing can be compared" if verdict_of(result) == "INVALID" else "no significant change"]
    return [f"{text_at(entry, 'name')} {wording.signed_percent(number_at(entry, 'difference'))}" for entry in changed]


def _ablate(result: Json) -> list[str]:
    first, last = points_of(result)[0], main_point(result)
    before, after = rate_at(first), rate_at(last)
    if not before or after is None or first is last:
        return _point_facts(result)
    noise = ", within the noise" if _overlap(first, last) else ""
    gain = f"{wording.ratio(after / before)} {text_at(first, 'name')}{noise}"
    facts = [f"{text_at(last, 'name')}: {wording.rate(after)}, {gain}"]
    duty = [number_at(point, "duty_cycle") for point in (first, last)]
    if None not in duty:
        facts.append(f"duty cycle {wording.percent(duty[0])} → {wording.percent(duty[1])}")
    return facts


def _overlap(a: Json, b: Json) -> bool:
    """Whether the intervals of the two rates have something in common; False where one of them is not known."""
    found = [interval_at(point, "rate_interval") for point in (a, b)]
    known = [one for one in found if one is not None]
    return len(known) == 2 and max(low for low, _ in known) <= min(high for _, high in known)


def _calibrate(result: Json) -> list[str]:
    worst = number_at(result, "calibration", "worst_deviation")
    ratio = number_at(result, "calibration", "predicted_rate_ratio")
    n_steps = len(list_at(result, "calibration", "steps"))
    facts = [f"{n_steps} shapes of steps, the profile is off by {wording.percent(worst)} at most"]
    if ratio is not None:
        facts.append(f"peak rate on the profile {wording.signed_percent(ratio - 1)}")
    return facts


def _accuracy(result: Json) -> list[str]:
    rows = [row for row in list_at(result, "accuracy", "figures") if mapping_at(row)]
    told = [row for row in rows if number_at(row, "limit") is not None] or rows[:2]
    return [f"{text_at(row, 'name')} {accuracy_figure(row, 'value')} {limit_of(row)}".strip() for row in told]


def picked_trial(contest: Json) -> Json:
    """Of a signal's targets the one that was picked; empty where there was none."""
    picked, trials = number_at(contest, "picked"), list_at(contest, "trials")
    return mapping_at(trials[int(picked)]) if picked is not None and 0 <= picked < len(trials) else {}


def _autoscale(result: Json) -> list[str]:
    contests = [c for c in list_at(result, "autoscale", "contests") if picked_trial(c)]
    ordered = sorted(contests, key=lambda contest: number_at(picked_trial(contest), "score") or 0.0)
    facts: list[str] = []
    for contest in ordered[:2]:
        trial = picked_trial(contest)
        facts.append(
            f"{'best' if not facts else 'next'}: {text_at(contest, 'name')} at {number_at(trial, 'target'):g} with "
            f"{number_at(trial, 'pods_over_least') or 0.0:.2f} × the least pods and "
            f"{wording.percent(number_at(trial, 'out_share'))} of the time outside of the SLO"
        )
    return facts or ["no signal has a target that could be set"]


def accuracy_figure(row: Json, key: str) -> str:
    """The value or the limit of one of ``accuracy.figures``."""
    value = number_at(row, key)
    return wording.percent(value) if row.get("share") else wording.precise(value)


def limit_of(row: Json) -> str:
    """≤ and the limit, or > where it is not kept; '' without one."""
    if number_at(row, "limit") is None:
        return ""
    signs = ("<", "≥") if row.get("good") == "least" else (">", "≤")
    return f"{signs[bool(row.get('holds'))]} {accuracy_figure(row, 'limit')}"


def _starve(result: Json) -> list[str]:
    points = [p for p in points_of(result) if rate_at(p) is not None and verdict_at(p) != "INVALID"]
    if len(points) < 2:
        return _point_facts(result)
    least = min(points, key=_rate)
    offered = number_at(least, "offered_rate")
    if not offered:
        return _point_facts(result)
    kept = f"{text_at(least, 'name')}: {wording.percent(_rate(least) / offered)} of {wording.rate(offered)} kept"
    return [kept, *_latency(result, least)]


def _overload(result: Json) -> list[str]:
    points = [point for point in steady_points(result) if verdict_at(point) != "INVALID" and _good_rate(point)]
    points = [point for point in points if number_at(point, "offered_rate")]
    if not points:
        return _point_facts(result)
    peak = max(_good_rate(point) for point in points)
    heaviest = max(points, key=lambda point: number_at(point, "offered_rate") or 0.0)
    kept = _good_rate(heaviest) / peak
    fates = answers_by_fate(heaviest)
    refused = fates["refused"] / max(1.0, sum(fates.values()))
    return [
        f"at {wording.rate(number_at(heaviest, 'offered_rate'))} offered goodput is "
        f"{wording.percent(kept)} of its peak {wording.rate(peak)}",
        f"{wording.percent(refused)} refused",
    ]


def _good_rate(point: Json) -> float:
    """OK answers per second within the objective; without one, OK answers."""
    goodput = number_at(point, "goodput")
    return _rate(point) if goodput is None else goodput


def _rate(point: Json) -> float:
    return rate_at(point) or 0.0


_MODES: dict[str, Callable[[Json], list[str]]] = {
    "find-max": _find_max,
    "sweep": lambda result: _find_max(result) if best_of(result) else _point_facts(result),
    "tune": _tune,
    "breakdown": _breakdown,
    "compare": _compare,
    "ablate": _ablate,
    "calibrate": _calibrate,
    "starve": _starve,
    "overload": _overload,
}
