"""One measured point: a server's settings, a load, and what came of it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["VALID", "UNSTABLE", "INVALID", "FAILED"]
VALID: Verdict = "VALID"
UNSTABLE: Verdict = "UNSTABLE"  # in flight and latency grew all the time: beyond capacity, and no steady state
INVALID: Verdict = "INVALID"  # the generator was the limit, not the server
FAILED: Verdict = "FAILED"  # the server went away

Summary = dict[str, float | None]  # p50 p75 p90 p95 p99 p999 max mean count; None: too few samples to say
QUANTILES = {"p50": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999, "p9999": 0.9999}
BEYOND_MIN = 10  # answers beyond a percentile without which it is not worth a number


@dataclass
class Point:
    """All times are microseconds and all rates are per second. None: not known, or the server did not say.

    ``rate``: OK answers. ``goodput``: those of them within the SLO's latency. Response times count from the intended
    send time, service times from the write; both of OK answers. Shares (``duty_cycle``, ``idle_reasons``) are of the
    time measured.
    """

    name: str
    settings: dict[str, Any] = field(default_factory=dict)  # what is varied; the rest is in Result.target
    load: dict[str, Any] = field(default_factory=dict)  # LoadSpec.describe()
    started: str = ""  # UTC, ISO 8601
    verdict: Verdict = VALID
    reasons: list[str] = field(default_factory=list)
    interrupted: bool = False
    missing: str = ""  # why it could not be measured at all: then it has no figures

    offered_rate: float | None = None
    achieved_rate: float | None = None
    rate: float = 0.0
    rate_interval: list[float] | None = None  # 95 %, over the run's seconds
    goodput: float | None = None
    p50_us: float | None = None
    p99_us: float | None = None
    p99_interval_us: list[float] | None = None  # 95 %, binomial
    response_time_us: Summary = field(default_factory=dict)
    service_time_us: Summary = field(default_factory=dict)
    lateness_us: Summary = field(default_factory=dict)
    first_message_us: Summary | None = None
    refusal_time_us: Summary | None = None  # of answers that are not OK
    status: dict[str, int] = field(default_factory=dict)
    spectrum: dict[str, list[list[float]]] = field(default_factory=dict)  # {"response": [[percentile, us]...], ...}
    timeline: list[dict[str, Any]] = field(default_factory=list)
    generator: dict[str, Any] = field(default_factory=dict)
    repetitions: list[dict[str, Any]] = field(default_factory=list)  # of a setting of tune: {rate, p50_us, …} of each

    duty_cycle: float | None = None  # union over dispatchers, mean over devices
    idle_reasons: dict[str, float] | None = None  # share of dispatcher time, mean over dispatchers
    devices: list[dict[str, Any]] | None = None  # {device, duty_cycle, sm_utilization}, more of a GPU
    dispatchers: list[dict[str, Any]] | None = None  # {dispatcher, device, busy, idle, steps_per_s, items_per_step}
    steps: float | None = None  # of all dispatchers
    stages_us: dict[str, Summary] | None = None  # {stage: {mean, p50, p99, count}}
    batch: dict[str, float | None] | None = None  # {items, tokens, fill}
    server_cpu: dict[str, float] | None = None  # cores by role
    items_status: dict[str, int] | None = (
        None  # by the server: items of a batch fail one by one, within a call that is OK
    )
    in_flight: float | None = None  # items at a time in the server, mean
    waiting: float | None = None  # those of them that waited for a dispatcher
    saturation: float | None = None
    saturation_terms: dict[str, float] = field(default_factory=dict)  # by cause
    # The server's own possible limits: queue_wait_p95_s; the busiest dispatcher's, frontdoor's and device's share.
    at_limit: dict[str, float] = field(default_factory=dict)

    @property
    def answers(self) -> int:
        """All calls that ended, however."""
        return sum(self.status.values())

    @property
    def measured(self) -> bool:
        """Whether there is anything to judge: it ran, and some call ended within the time."""
        return not self.missing and bool(self.answers or self.rate)

    @property
    def error_ratio(self) -> float:
        """Share of calls that did not end OK, or of items of batches if that is more; 1 where none ended."""
        calls = _not_ok(self.status)
        of_batches = self.load.get("items_per_call", 1) > 1 and self.items_status
        return max(calls, _not_ok(self.items_status)) if of_batches and self.items_status else calls

    def as_json(self) -> dict[str, Any]:
        """The point as a JSON value."""
        values = dataclasses.asdict(self)
        return values | {"rate": None, "verdict": None} if self.missing else values


def _not_ok(status: dict[str, int]) -> float:
    total = sum(status.values())
    return 1 - status.get("OK", 0) / total if total else 1.0


def with_samples_only(summary: dict[str, Any]) -> Summary:
    """The numbers of a summary, without the percentiles that too few samples lie beyond."""
    count = float(summary.get("count") or 0)
    kept: Summary = {}
    for key, value in summary.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            too_few = key in QUANTILES and count * (1 - QUANTILES[key]) < BEYOND_MIN - 1e-6
            kept[key] = None if too_few or count == 0 else float(value)
    return kept | {"count": count}


def median_point(points: list[Point]) -> Point:
    """The repetition of a point with the median rate; the figures of all are in its ``repetitions``. Repetitions
    that did not run, or in which no call ended, have no rate. They are left out unless all are such, as are those in
    which the generator was the limit."""
    points = [point for point in points if point.measured] or points
    sound = [point for point in points if point.verdict not in (INVALID, FAILED)] or points
    ordered = sorted(sound, key=lambda p: p.rate)
    middle = ordered[(len(ordered) - 1) // 2]
    figures = ("rate", "goodput", "p50_us", "p99_us", "duty_cycle", "verdict")
    unknown = dict.fromkeys(("rate", "verdict"))
    rows = [{f: getattr(p, f) for f in figures} | ({} if p.measured else unknown) for p in points]
    return dataclasses.replace(middle, repetitions=rows)
