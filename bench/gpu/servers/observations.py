"""What a point shows beside its rate: refused calls, a rate that still rises, the GPU's clock and power."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from bench.gpu.sampler import describe
from fastqps.bench.results.point import Point
from fastqps.telemetry.fetch import fetch

FETCH_S = 10.0
REFUSED = "RESOURCE_EXHAUSTED"
REFUSED_MOST = 0.001  # share of the calls that is not worth a word
RISES = 0.03  # a rate that rises by more while it is measured is of a server that had not settled


def start_stages(admin: str) -> str:
    """What the start of a server's dispatchers took, stage by stage, for people: the longest of each."""
    longest: dict[str, float] = {}
    page = fetch(admin, "/metrics", FETCH_S).decode() if admin else ""
    for sample in (sample for family in text_string_to_metric_families(page) for sample in family.samples):
        if sample.name == "fastqps_process_start_seconds" and sample.labels["role"] == "dispatcher":
            stage = sample.labels["stage"]
            longest[stage] = max(sample.value, longest.get(stage, 0.0))
    return ", ".join(f"{stage} {s:.1f}" for stage, s in sorted(longest.items(), key=lambda item: -item[1]) if s >= 0.05)


def refused(point: Point) -> float:
    """Share of the calls that the server refused because it had too many."""
    return point.status.get(REFUSED, 0) / max(1, point.answers)


def refusals(point: Point) -> str:
    """For people; nothing where there were none."""
    share = refused(point)
    return f"{100 * share:.1f} % of the calls refused, the rate is of the answered ones" if share > REFUSED_MOST else ""


def by_second(point: Point) -> list[float]:
    """The rates of its whole seconds."""
    return [second["ok"] / (second.get("length_s") or 1.0) for second in point.timeline if "ok" in second]


def trend(point: Point) -> str:
    """For people; nothing where the second half was about as fast as the first."""
    rates = by_second(point)
    half = len(rates) // 2
    first, last = sum(rates[:half]), sum(rates[len(rates) - half :])
    rose = last / first - 1 if first else 0.0
    return f"not settled: its rate rose by {100 * rose:.0f} %" if rose > RISES else ""


def clocks(point: Point) -> str:
    """Clock, power and temperature of the GPU meanwhile, for people."""
    found = [device["clocks"] for device in point.devices or () if "clocks" in device]
    return describe(found[0]) if found else ""
