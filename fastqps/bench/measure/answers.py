"""Fills in the fields of a point from the load generator's JSON."""

from __future__ import annotations

from typing import Any

from fastqps.bench.results.point import UNSTABLE, Point, with_samples_only
from fastqps.bench.slo import Slo, goodput
from fastqps.bench.statistics.intervals import p99_interval_us, rate_interval

_COPIED = ("reasons", "spectrum", "timeline", "histograms", "status")
_SUMMARIES = ("response_time_us", "service_time_us", "lateness_us")
_OPTIONAL = {"first_message_us": "first_message_us", "refusal_time_us": "failed_time_us"}
_GENERATOR = ("cpu", "connections", "waiting_max", "verified", "environment", "seeds", "command", "own_lateness_us")


def fill_in(point: Point, found: dict[str, Any], slo: Slo | None) -> None:
    """Fills in what the generator saw. What it does not say stays unknown."""
    point.verdict = found.get("verdict", point.verdict)
    status = found.get("status") or {}
    if status and not status.get("OK"):
        point.verdict = UNSTABLE  # one answer had come before: this load is more than the server bears
    for name in _COPIED:
        setattr(point, name, found.get(name) or getattr(point, name))
    for name in _SUMMARIES:
        setattr(point, name, with_samples_only(found.get(name) or {}))
    for name, key in _OPTIONAL.items():
        if (found.get(key) or {}).get("count"):
            setattr(point, name, with_samples_only(found[key]))
    point.offered_rate = found.get("offered_rate")
    point.achieved_rate = found.get("achieved_rate")
    point.rate = float(found.get("rate") or 0.0)
    point.p50_us, point.p99_us = point.response_time_us.get("p50"), point.response_time_us.get("p99")
    point.p99_interval_us = p99_interval_us(point)
    point.rate_interval = rate_interval([s["ok"] / (s.get("length_s") or 1.0) for s in point.timeline if "ok" in s])
    point.goodput = goodput(point, slo) if slo else None
    cpu = found.get("cpu") or {}
    point.generator = {"cpu_fraction": cpu.get("fraction"), **{k: found[k] for k in _GENERATOR if k in found}}
