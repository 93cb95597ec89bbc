"""HIGH and NORMAL beside a flood of LOW, and what a HIGH that wants everything leaves to the others."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from bench.isolation.figures import refused_row
from bench.isolation.growth import growth_row
from bench.isolation.mix import Kind, poisson, saturate
from bench.isolation.rounds import Loads, measure
from bench.isolation.subject import BATCH, CAPACITY, DEADLINE_S, message
from bench.row import Row
from bench.runner import Bench
from fastqps.process.server_process import ServerProcess
from fastqps.v1 import predict_pb2 as pb

LOW, NORMAL, HIGH = pb.PRIORITY_LOW, pb.PRIORITY_NORMAL, pb.PRIORITY_HIGH
CLASSES = {"HIGH": HIGH, "NORMAL": NORMAL, "LOW": LOW}
MODEST, FLOOD = 0.1, 5.0  # of the capacity
OPEN = 8 * BATCH  # calls of each class that wants everything: together they find room in the queue
LOADS = ("unloaded", "flood")
LEAST = {"NORMAL": 15.0, "LOW": 3.0}  # % of the tokens
Many = Callable[[pb.Priority], list[pb.PredictRequest]]


def loads(capacity: float, seconds: float, many: Many) -> Loads:
    """HIGH and NORMAL alone; the same calls beside the flood."""

    def calls(seed: int, **shares: float) -> list[Kind]:
        return [
            Kind(name, many(CLASSES[name]), poisson(share * capacity, seconds, 10 * seed + CLASSES[name]))
            for name, share in shares.items()
        ]

    return {
        "unloaded": lambda seed: calls(seed, HIGH=MODEST, NORMAL=MODEST),
        "flood": lambda seed: calls(seed, HIGH=MODEST, NORMAL=MODEST, LOW=FLOOD),
    }


def classes(bench: Bench, server: ServerProcess) -> None:
    """On the modelled device."""
    asked = loads(CAPACITY, bench.seconds, lambda which: [message(which)])
    rounds = measure(bench, "classes", server, asked, DEADLINE_S)
    for name in ("HIGH", "NORMAL"):
        bench.rows.append(refused_row(f"{name} beside a LOW flood of {FLOOD:g} × capacity", rounds.all("flood", name)))
        accept = 2 if name == "HIGH" else None
        bench.rows.append(
            growth_row(f"{name} beside it: growth of p99", rounds, name, LOADS, 0.99, 1e6 * DEADLINE_S, accept)
        )
    saturated = [
        saturate(server.address, {name: [message(which)] for name, which in CLASSES.items()}, bench, OPEN)
        for _ in range(bench.repetitions)
    ]
    for number, found in enumerate(saturated):
        bench.points += [{"name": f"classes, saturated, {name}", "round": number, **run} for name, run in found.items()]
    bench.rows += [_share_row(saturated, name) for name in LEAST]


def _share_row(rounds: list[dict[str, dict[str, Any]]], name: str) -> Row:
    """All requests have as many tokens, so a share of the answers is one of the tokens."""
    rates = [{kind: run["rate"] for kind, run in found.items()} for found in rounds]
    shares = [100 * found[name] / sum(found.values()) for found in rates]
    note = ", ".join(f"{kind} {statistics.median(found[kind] for found in rates):,.0f}" for kind in CLASSES)
    return Row(
        f"{name} beside a saturating HIGH: share of the tokens", statistics.median(shares), "%", LEAST[name],
        note=f"{note} answers/s; {OPEN} calls of each class always open", interval=(min(shares), max(shares)),
    )  # fmt: skip
