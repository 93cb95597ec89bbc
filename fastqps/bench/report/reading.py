"""Reads a result's JSON without trusting it: a run that was interrupted, a target without metrics and an older file all
lack something. What is missing or makes no sense reads as None, an empty list or an empty mapping."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from fastqps.bench.report import wording

Json: TypeAlias = Mapping[str, Any]

_EMPTY: Json = {}
_VALUE_MAX = 1e15  # anything larger is damage: 30 years in µs


def value_at(data: object, *keys: str) -> object:
    """What lies under these keys, one after the other; None where there is nothing."""
    for key in keys:
        if not isinstance(data, Mapping):
            return None
        data = data.get(key)
    return data


def number_at(data: object, *keys: str) -> float | None:
    """A finite number; None for anything else."""
    value = value_at(data, *keys)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) and abs(value) < _VALUE_MAX else None


def mapping_at(data: object, *keys: str) -> Json:
    value = value_at(data, *keys)
    return value if isinstance(value, Mapping) else _EMPTY


def list_at(data: object, *keys: str) -> list[Any]:
    value = value_at(data, *keys)
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else []


def interval_at(data: object, *keys: str) -> tuple[float, float] | None:
    """The lower and the upper end."""
    pairs = pairs_at({"pairs": [value_at(data, *keys)]}, "pairs")
    return (min(pairs[0]), max(pairs[0])) if pairs else None


def pairs_at(data: object, *keys: str) -> list[tuple[float, float]]:
    """The entries of a list that are two numbers each."""
    found = []
    for entry in list_at(data, *keys):
        pair = [number_at({"value": value}, "value") for value in list_at({"pair": entry}, "pair")]
        if len(pair) == 2 and pair[0] is not None and pair[1] is not None:
            found.append((pair[0], pair[1]))
    return found


def text_at(data: object, *keys: str) -> str:
    """A string or a number as text, '' for anything else. No control characters: it goes to terminals and into SVG."""
    value = value_at(data, *keys)
    return clean(str(value)) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else ""


def clean(text: str) -> str:
    """The text with a space for everything that is not printable (lone surrogates too)."""
    return "".join(c if c.isprintable() else " " for c in text)


def one_line_of(text: str) -> str:
    """The text on one line, without control codes."""
    return " ".join(clean(text).split())


def numbers_at(data: object, *keys: str) -> dict[str, float]:
    """A mapping's numbers, by name, in its order."""
    found = {clean(str(name)): number_at(value) for name, value in mapping_at(data, *keys).items()}
    return {name: value for name, value in found.items() if value is not None}


def points_of(result: Json) -> list[Json]:
    return [point for point in list_at(result, "points") if isinstance(point, Mapping)]


def setting_at(point: Json, name: str) -> str:
    """A varied setting of a point as text, '' if it has none."""
    return one_line_of(wording.setting(value_at(point, "settings", name)))


NOT_RUN = "NOT RUN"


def was_run(point: Json) -> bool:
    """False for a point that only says why it could not be measured."""
    return bool(mapping_at(point, "status")) or bool(number_at(point, "rate")) or not list_at(point, "reasons")


def verdict_at(point: Json) -> str:
    """VALID, UNSTABLE, INVALID, or NOT RUN; '' if it is not known."""
    return text_at(point, "verdict") if was_run(point) else NOT_RUN


def rate_at(point: Json) -> float | None:
    """OK answers per second; None for a point that was not run."""
    return number_at(point, "rate") if was_run(point) else None


def best_of(result: Json) -> Json | None:
    """The point that the result names as its best, if it names one that exists."""
    index, points = value_at(result, "best"), list_at(result, "points")
    if isinstance(index, int) and not isinstance(index, bool) and 0 <= index < len(points):
        point = points[index]
        return point if isinstance(point, Mapping) else None
    return None


def setting_names(result: Json) -> list[str]:
    """Of a search over settings: those that it varied, which tell its points apart better than their names do."""
    return varied_settings(points_of(result)) if text_at(result, "mode") == "tune" else []


def name_at(result: Json, point: Json) -> str:
    """What to call a point: its name, or in a search its varied settings, as 2 · 1 · 64; of one alone with its name."""
    names = setting_names(result)
    values = [setting_at(point, name) or wording.NOTHING for name in names]
    if len(names) == 1 and names[0]:
        return f"{wording.words(names[0])} {values[0]}"
    return " · ".join(values) if any(names) else text_at(point, "name")


def steady_points(result: Json) -> list[Json]:
    """The points without those whose load changes on purpose while they run (steps, ramps, sines)."""
    changing = ("step", "ramp", "sine")
    return [point for point in points_of(result) if not text_at(point, "load", "arrivals").startswith(changing)]


def varied_settings(points: Sequence[Json]) -> list[str]:
    """Names of the server settings that are not the same in all points, in the order of their first appearance."""
    names = list(dict.fromkeys(name for point in points for name in mapping_at(point, "settings")))
    return [name for name in names if len({repr(value_at(point, "settings", name)) for point in points}) > 1]


def idle_reasons(data: object) -> dict[str, float]:
    """Share of the time by reason, known reasons in the order of a step first."""
    found = numbers_at(data)
    known = [reason for reason in IDLE_REASONS if reason in found]
    return {reason: found[reason] for reason in [*known, *(name for name in found if name not in known)]}


IDLE_REASONS = ("no_work", "batch_delay", "gather", "launch", "shared", "scatter")
STAGES = ("receive", "parse", "tokenize", "queue", "gather", "launch", "device", "scatter", "drain", "send")

REFUSED = ("RESOURCE_EXHAUSTED",)
EXPIRED = ("DEADLINE_EXCEEDED", "TIMEOUT", "EXPIRED_UNSENT")  # at the server; at the generator, sent or not


def answers_by_fate(point: Json) -> dict[str, float]:
    """Calls by what became of them: ok, refused, expired, failed."""
    status = numbers_at(point, "status")
    ok, refused = status.get("OK", 0.0), sum(status.get(code, 0.0) for code in REFUSED)
    expired = sum(status.get(code, 0.0) for code in EXPIRED)
    return {"ok": ok, "refused": refused, "expired": expired, "failed": sum(status.values()) - ok - refused - expired}


def response_us(point: Json, statistic: str) -> float | None:
    """p50, p99, max, … of the response time: from when a request should have been sent to its answer."""
    found = number_at(point, "response_time_us", statistic)
    return found if found is not None else number_at(point, f"{statistic}_us")


def too_few(point: Json, percentile: str, *, of: str = "response_time_us") -> bool:
    """True if fewer than ten samples lie above this percentile (p99, p999), so that it says little."""
    count = number_at(point, of, "count")
    return count is not None and percentile in _ABOVE and count * _ABOVE[percentile] < 10


_ABOVE = {"p50": 0.5, "p75": 0.25, "p90": 0.1, "p95": 0.05, "p99": 0.01, "p999": 0.001, "p9999": 0.0001}
