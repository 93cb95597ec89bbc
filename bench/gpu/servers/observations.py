"""What a point shows beside its rate: refused calls, a rate that still rises, the GPU's clock and power."""

from __future__ import annotations

from bench.gpu.sampler import describe
from fastqps.bench.results.point import Point
from fastqps.telemetry.scrape import scrape

REFUSED = "RESOURCE_EXHAUSTED"
REFUSED_MOST = 0.001  # share of the calls that is not worth a word
RISES = 0.03  # a rate that rises by more while it is measured is of a server that had not settled


def start_stages(admin: str) -> str:
    """What the start of a server's dispatchers took, stage by stage, for people: the longest of each."""
    longest: dict[str, float] = {}
    for labels, took_s in scrape(admin).series("fastqps_process_start_seconds") if admin else ():
        if labels["role"] == "dispatcher":
            longest[labels["stage"]] = max(took_s, longest.get(labels["stage"], 0.0))
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
