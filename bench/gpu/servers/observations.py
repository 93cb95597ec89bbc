"""Observations of a point beside its rate: whether it counts, and what limited it, from its own measurements."""

from __future__ import annotations

from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from bench.gpu.sampler import describe as describe_clocks
from fastqps.bench.results.point import INVALID, UNSTABLE, Point
from fastqps.bench.results.result import BenchError
from fastqps.telemetry.live.remote import fetch

FETCH_S = 10.0
REFUSED = "RESOURCE_EXHAUSTED"
UNSAID_MOST = 0.001  # share of failed or refused calls that is not worth a word
KEPT_UP = 0.99  # of the offered rate: as many Poisson arrivals as a few seconds may have
RISES = 0.03  # a rate that rises by more while it is measured is of a server that had not settled


def start_stages(admin: str) -> str:
    """The startup times of a server's dispatchers, stage by stage, for people: the longest of each."""
    longest: dict[str, float] = {}
    page = fetch(admin, "/metrics", FETCH_S).decode() if admin else ""
    for sample in (sample for family in text_string_to_metric_families(page) for sample in family.samples):
        if sample.name == "fastqps_process_start_seconds" and sample.labels["role"] == "dispatcher":
            stage = sample.labels["stage"]
            longest[stage] = max(sample.value, longest.get(stage, 0.0))
    return ", ".join(f"{stage} {s:.1f}" for stage, s in sorted(longest.items(), key=lambda item: -item[1]) if s >= 0.05)


def brief(point: Point) -> dict[str, Any]:
    """A point without what is long: spectra, timelines."""
    fields = point.as_json()
    for key in ("spectrum", "timeline", "generator"):
        fields.pop(key, None)
    return fields | {"by_second": [round(rate) for rate in by_second(point)]}


def answered(point: Point) -> Point:
    """The point. ``BenchError`` where calls failed, or all were refused: its rate would be of nothing.

    Where some were refused, the rate is that of the answered ones, and ``bound_by`` names their share.
    """
    if point.error_ratio - _refused(point) > UNSAID_MOST or not point.rate:
        raise BenchError(f"{100 * point.error_ratio:.1f} % of the calls failed: {point.status} {point.items_status}")
    return point


def within(point: Point, p99_us: float) -> bool:
    """Whether all was answered within the limit. Calls that the generator sent late were answered later for it: a limit
    that holds all the same holds."""
    kept_up = not point.offered_rate or (point.rate >= KEPT_UP * point.offered_rate and not point.error_ratio)
    return kept_up and point.verdict != UNSTABLE and bool(point.p99_us) and (point.p99_us or 0.0) <= p99_us


def by_second(point: Point) -> list[float]:
    """The rates of its whole seconds."""
    return [second["ok"] / (second.get("length_s") or 1.0) for second in point.timeline if "ok" in second]


def bound_by(point: Point, floor: str = "", ceiling: float | None = None) -> str:
    """Names what limits a point, with each figure.

    Refused calls and a rising rate are named first. Then, in this order: the generator where it says so itself; the
    device where it is busy 95 % of the time; the transport where the rate is 80 % of ``ceiling``, the null device's;
    else the host, by its busiest role and the device's commonest reason for idling. ``floor`` says how much of the
    device's time is needed at least.
    """
    reasons, busy = [_refusals(point), _trend(point)], point.duty_cycle
    if point.verdict == INVALID:
        reasons.append("the load generator (INVALID): " + "; ".join(point.reasons)[:120])
    elif busy is not None and busy >= 0.95:
        reasons.append("the device")
    elif ceiling and point.rate >= 0.8 * ceiling:
        reasons.append("the transport")
    else:
        reasons.append("the host")
    if busy is not None:
        reasons.append(f"device busy {100 * busy:.1f} %")
    if point.idle_reasons:
        reason, share = max(point.idle_reasons.items(), key=lambda item: item[1])
        reasons.append(f"idle for {reason} {100 * share:.1f} %")
    if ceiling:
        reasons.append(f"{100 * point.rate / ceiling:.0f} % of the transport's ceiling")
    if point.server_cpu:
        roles = {role: cores for role, cores in point.server_cpu.items() if cores >= 0.05}
        reasons.append("cores: " + ", ".join(f"{role} {cores:.1f}" for role, cores in roles.items()))
    if point.batch and point.batch.get("items"):
        reasons.append(f"batch {point.batch['items']:.0f} items")
    if gpu := next((d for d in point.devices or [] if d.get("sm_utilization") is not None), None):
        tensor = gpu.get("tensor_utilization") or 0.0
        reasons.append(f"SM {100 * gpu['sm_utilization']:.0f} %, tensor {100 * tensor:.0f} %")
    return "; ".join(filter(None, [*reasons, _clocks(point), floor]))


def times(point: Point) -> str:
    """Its p99, for people, and of an open loop how late the generator was, which is in it; nothing of a point that
    waits for nobody."""
    if point.p99_us is None:
        return ""
    late = point.lateness_us.get("p99") or 0.0
    text = f"p99 {point.p99_us / 1000:,.1f} ms"
    return text + (f" with a generator that was {late / 1000:.1f} ms late" if point.offered_rate and late else "")


def _refused(point: Point) -> float:
    """Share of the calls that the server refused because it had too many."""
    return point.status.get(REFUSED, 0) / max(1, point.answers)


def _refusals(point: Point) -> str:
    share = _refused(point)
    return f"{100 * share:.1f} % of the calls refused, the rate is of the answered ones" if share > UNSAID_MOST else ""


def _trend(point: Point) -> str:
    """Nothing where the second half was about as fast as the first."""
    rates = by_second(point)
    half = len(rates) // 2
    first, last = sum(rates[:half]), sum(rates[len(rates) - half :])
    rose = last / first - 1 if first else 0.0
    return f"not settled: its rate rose by {100 * rose:.0f} %" if rose > RISES else ""


def _clocks(point: Point) -> str:
    """Clock, power and temperature of the GPU meanwhile."""
    clocks = [device["clocks"] for device in point.devices or () if "clocks" in device]
    return describe_clocks(clocks[0]) if clocks else ""
