"""Results of `fastqps bench` as its modes write them, from the arithmetic of queues: what a report is tested with."""

from __future__ import annotations

import dataclasses
import math
import random
from typing import Any

from fastqps.bench.results.point import Point
from fastqps.bench.results.result import Result

SERVICE_US = 844.0  # mean; a capacity of 1,185 requests/s
CAPACITY = 1e6 / SERVICE_US
STAGES = {
    "receive": 4.0,
    "parse": 1.2,
    "tokenize": 2.1,
    "queue": 40.0,
    "gather": 8.0,
    "launch": 22.0,
    "device": 700.0,
    "scatter": 6.0,
    "drain": 3.0,
    "send": 9.0,
}
IDLE = {"no_work": 0.4, "batch_delay": 0.05, "gather": 0.3, "launch": 0.15, "scatter": 0.1}
QUANTILES = {"p50": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999, "p9999": 0.9999}
SPECTRUM = [0, 10, 25, 50, 75, 90, 95, 97.5, 99, 99.5, 99.75, 99.9, 99.95, 99.97, 99.99]


def result_of(document: dict[str, Any]) -> Result:
    """The result whose JSON this is."""
    known = {field.name for field in dataclasses.fields(Result)} - {"extra", "points"}
    own = {key: value for key, value in document.items() if key in known}
    extra = {key: value for key, value in document.items() if key not in (*known, "points", "schema_version")}
    return Result(**own, points=[Point(**row) for row in document["points"]], extra=extra)


def summary(mean_us: float, count: int, floor_us: float = 120.0) -> dict[str, float | None]:
    """Exponential beyond a floor; None where fewer than ten samples lie beyond."""
    found: dict[str, float | None] = {"mean": floor_us + mean_us, "max": floor_us + mean_us * math.log(max(2, count))}
    for name, share in QUANTILES.items():
        enough = count * (1 - share) >= 10
        found[name] = floor_us - mean_us * math.log(1 - share) if enough else None
    return found | {"count": float(count)}


def spectrum(mean_us: float) -> list[list[float]]:
    return [[p, 120.0 - mean_us * math.log(1 - p / 100)] for p in SPECTRUM]


def timeline(rate: float, ok: float, p50_us: float, seconds: int, seed: int) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    rows = []
    for t in range(seconds):
        sent, stall = round(chance.gauss(rate, math.sqrt(rate))), 6.0 if t == seconds // 2 else 1.0
        good = round(min(sent, ok))
        p50 = p50_us * stall * chance.uniform(0.95, 1.05)
        rows.append(
            {
                "t_s": t + 1.0,
                "length_s": 1.0,
                "phase": "measured",
                "sent": sent,
                "ok": good,
                "status": {"OK": good} | ({"RESOURCE_EXHAUSTED": sent - good} if sent > good else {}),
                "p50_us": p50,
                "p99_us": p50 * 5.5 * chance.uniform(0.9, 1.3),
                "in_flight": round(ok * p50 * 1.4 / 1e6) + 1,
            }
        )
    return rows


def point(
    name: str,
    offered: float,
    *,
    capacity: float = CAPACITY,
    load_max: float = 0.995,
    n_dispatchers: int = 1,
    **changes: Any,
) -> dict[str, Any]:
    """An M/M/1 queue that sheds what it cannot serve; ``changes`` replace what it says."""
    duration_s = 30.0
    load = min(offered / capacity, load_max)
    ok_rate = min(offered, 0.985 * capacity)
    count = round(ok_rate * duration_s)
    wait_us = 1e6 / capacity / (1 - load)
    response, service = summary(wait_us, count), summary(0.7 * wait_us, count)
    slo_us = 50_000.0
    within = 1 - math.exp(-(slo_us - 120) / wait_us)
    duty = min(0.995, offered / capacity * 0.97)
    shed = round((offered - ok_rate) * duration_s)
    stages = {
        stage: {"mean": us, "p50": us * 0.9, "p99": us * 3, "count": float(count)}
        for stage, us in (STAGES | {"queue": 0.6 * wait_us}).items()
    }
    service["mean"] = sum(stage["mean"] for stage in stages.values()) + 60.0
    found = {
        "name": name,
        "settings": {},
        "load": {
            "loop": "open",
            "arrivals": "poisson",
            "offered_rate": offered,
            "connections": 16,
            "duration_s": duration_s,
            "call": "unary",
            "seed": 1,
        },
        "started": "2026-11-20T16:30:00Z",
        "verdict": "VALID" if offered <= capacity else "UNSTABLE",
        "reasons": [] if offered <= capacity else ["in flight grew by 41 ± 3 per second"],
        "interrupted": False,
        "offered_rate": offered,
        "achieved_rate": offered * 0.9998,
        "rate": ok_rate,
        "rate_interval": [ok_rate * 0.99, ok_rate * 1.01],
        "goodput": ok_rate * within,
        "p50_us": response["p50"],
        "p99_us": response["p99"],
        "p99_interval_us": [response["p99"] * 0.96, response["p99"] * 1.05] if response["p99"] else None,
        "response_time_us": response,
        "service_time_us": service,
        "lateness_us": summary(14.0, count, 2.0),
        "first_message_us": None,
        "status": {"OK": count} | ({"RESOURCE_EXHAUSTED": shed} if shed else {}),
        "spectrum": {"response": spectrum(wait_us), "service": spectrum(0.7 * wait_us)},
        "timeline": timeline(offered, ok_rate, response["p50"] or 500.0, 30, round(offered)),
        "generator": {"cpu_fraction": 0.11, "own_lateness_us": summary(9.0, count, 2.0)},
        "repetitions": [],
        "duty_cycle": duty,
        "idle_reasons": {reason: (1 - duty) * share for reason, share in IDLE.items()},
        "devices": [{"device": "sim:h200-minilm-l6", "duty_cycle": duty}],
        "dispatchers": [
            {
                "dispatcher": d,
                "device": "sim:h200-minilm-l6",
                "busy": duty / n_dispatchers * (1.05 - 0.1 * d),
                "idle": {
                    reason: (1 - duty / n_dispatchers * (1.05 - 0.1 * d)) * share for reason, share in IDLE.items()
                },
                "steps_per_s": 180.0,
                "items_per_step": ok_rate / 180 / n_dispatchers,
            }
            for d in range(n_dispatchers)
        ],
        "stages_us": stages,
        "batch": {"items": ok_rate / 180, "tokens": ok_rate / 180 * 32, "fill": 0.41},
        "server_cpu": {"frontdoor": 0.08, "dispatcher": 0.31, "supervisor": 0.01},
        "saturation": None,
    }
    return found | changes


def result(mode: str, points: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    found = {
        "schema_version": 1,
        "mode": mode,
        "command": f"fastqps bench {mode} --model minilm --device sim:h200-minilm-l6 --slo p99=50ms,err=0.1%",
        "started": "2026-11-20T16:30:00Z",
        "environment": {
            "cpu": "AMD EPYC",
            "cores": 2,
            "kernel": "6.18.44",
            "python": "3.11.7",
            "torch": "2.13.0+cpu",
            "numpy": "2.4.6",
        },
        "commit": "25b7708b1c2d",
        "seeds": {"arrivals": 1, "payloads": 2},
        "target": {
            "address": "127.0.0.1:50051",
            "model": "minilm",
            "version": "0123456789ab",
            "device": "sim:h200-minilm-l6",
            "profiles": [{"name": "h200-minilm-l6", "status": "estimated", "source": "arithmetic from data sheets"}],
            "settings": {"dispatchers": 2, "lanes": 1, "max-batch-items": 64},
            "own": True,
        },
        "workload": {"texts": "38 tokens each", "unique": True},
        "slo": {"p99_us": 50_000.0, "error_ratio": 0.001},
        "points": points,
        "best": None,
        "verdict": "VALID",
        "notes": [],
    }
    return found | changes


def rate() -> dict[str, Any]:
    return result("rate", [point("1,000/s", 1000.0, n_dispatchers=2)], best=0)


def sweep() -> dict[str, Any]:
    loads = [0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.05, 1.3]
    points = [point(f"{load * CAPACITY:,.0f}/s", load * CAPACITY, n_dispatchers=2) for load in loads]
    points[-1] |= {"verdict": "INVALID", "reasons": ["generator-bound: p99 lateness 4.1 ms, its thread was busy"]}
    points[-1]["lateness_us"] = summary(1_400.0, 30_000)
    points[-1]["generator"]["own_lateness_us"] = summary(1_300.0, 30_000)
    return result("sweep", points, best=5)


def find_max() -> dict[str, Any]:
    tried = [200, 400, 800, 1600, 1200, 1000, 1100, 1050]
    points = [point(f"{r:,}/s", float(r)) for r in tried]
    return result("find-max", points, best=7, notes=["The knee lies between 1,000/s and 1,050/s."])


def overload() -> dict[str, Any]:
    points = [
        point(f"{x:g} × capacity", x * CAPACITY, verdict="VALID", reasons=[], load_max=0.925) for x in (0.5, 1, 2, 5)
    ]
    points.append(point("back from 5 ×", 2.75 * CAPACITY, verdict="VALID", reasons=[], load_max=0.925))
    points[-1]["load"]["arrivals"] = f"step:{5 * CAPACITY:.6g},{0.5 * CAPACITY:.6g}"
    notes = ["at 5 × capacity a refusal takes 310 µs (median)", "back to usual within 2 s"]
    return result("overload", points, notes=notes, capacity=CAPACITY, recovery_s=1.0)


def breakdown() -> dict[str, Any]:
    points = []
    for n in (1, 4, 16, 64, 256, 512):
        one = point(f"{n} in flight", min(CAPACITY * 0.98, 900.0 * n))
        one["load"] |= {"loop": "closed", "in_flight": n, "offered_rate": None}
        one["offered_rate"] = None
        one["stages_us"]["queue"]["mean"] = 3.0 + n * 30.0
        one["service_time_us"]["mean"] = sum(stage["mean"] for stage in one["stages_us"].values()) + 55 + n
        points.append(one)
    return result("breakdown", points, slo=None)


def tune() -> dict[str, Any]:
    points = []
    settings = ((1, 1, 32), (1, 1, 64), (1, 2, 64), (2, 1, 64), (2, 2, 64), (3, 1, 64), (2, 1, 128))
    for dispatchers, lanes, items in settings:
        capacity = 700.0 * (1 + 0.55 * (dispatchers * lanes > 1) + 0.02 * dispatchers) * (1.1 if items > 32 else 1)
        name = f"dispatchers {dispatchers}, lanes {lanes}, max-batch-items {items}"
        one = point(name, 0.9 * capacity, capacity=capacity, n_dispatchers=dispatchers)
        one["settings"] = {"dispatchers": dispatchers, "lanes": lanes, "max-batch-items": items}
        one["duty_cycle"] = {(1, 1): 0.83, (1, 2): 0.968}.get((dispatchers, lanes), 0.985)
        points.append(one)
    points[-1] |= {"verdict": "UNSTABLE"}
    missing = {"settings": points[-1]["settings"] | {"dispatchers": 99}, "missing": "the server does not start"}
    points.append(missing | {"name": "99", "reasons": [missing["missing"]], "rate": None, "verdict": None})
    choices = [
        _choice("dispatchers", 2, {1: [705.0, 709.0, 690.0], 2: [1102.0, 1098.0, 1110.0], 3: [1116.0, 1097.0]}),
        _choice("lanes", 1, {1: [1100.0, 1104.0], 2: [1103.0, 1090.0]}),
        _choice("max-batch-items", 64, {64: [1102.0, 1099.0], 32: [960.0, 955.0], 128: [1102.0, 0.0]}),
    ]
    search = {"probes": 17, "noise": 0.008, "complete": True, "choices": choices, "setting": points[3]["settings"]}
    notes = ["dispatchers 2 (1: -44.0 ± 1.9 %; 3: +0.4 ± 1.8 %, within the noise)"]
    return result("tune", points, best=3, notes=notes, tune=search)


def _choice(setting: str, chosen: int, rates: dict[int, list[float]]) -> dict[str, Any]:
    rows = [{"value": value, "rates": found, "log_gain": None, "interval": None} for value, found in rates.items()]
    return {"setting": setting, "chosen": chosen, "before": next(iter(rates)), "values": rows}


def soak() -> dict[str, Any]:
    roles = {"supervisor": 48, "frontdoor": 61, "dispatcher": 540}
    samples = [
        {
            "t_s": float(t),
            "memory_bytes": {role: (mib + 0.2 * t * (role == "dispatcher")) * (1 << 20) for role, mib in roles.items()},
            "descriptors": {"supervisor": 41, "frontdoor": 38 + 16, "dispatcher": 22},
        }
        for t in range(30)
    ]
    drift = [
        {"name": "memory of dispatcher", "unit": "bytes", "first": 5.4e8, "last": 5.9e8, "growth": 0.09, "grows": True},
        {"name": "p99", "unit": "us", "first": 16_300.0, "last": 16_400.0, "growth": 0.006, "grows": False},
        {"name": "descriptors of frontdoor", "unit": "", "first": None, "last": None, "growth": None, "grows": False},
    ]
    one = point("900/s for 30 s", 900.0, n_dispatchers=2)
    notes = ["memory of dispatcher grew by 9 % while measured"]
    return result("soak", [one], best=0, verdict="UNSTABLE", notes=notes, drift=drift, processes=samples)


ALL = {
    "rate": rate,
    "sweep": sweep,
    "find-max": find_max,
    "overload": overload,
    "breakdown": breakdown,
    "tune": tune,
    "soak": soak,
    "interrupted": lambda: result("rate", [], verdict="INTERRUPTED"),
}
