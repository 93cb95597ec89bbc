"""Classes beside a flood on a model that this CPU computes, with the step size that the start chose."""

from __future__ import annotations

from bench.isolation.classes import FLOOD, LOADS, loads
from bench.isolation.figures import refused_row
from bench.isolation.growth import growth_row
from bench.isolation.mix import saturate
from bench.isolation.rounds import measure
from bench.row import Row
from bench.runner import Bench
from bench.texts import request, texts
from fastqps.process.server_process import ServerProcess
from fastqps.v1 import predict_pb2 as pb

DEADLINE_S = 10.0  # the default of a server
OPEN = 128  # two of the largest steps


def on_cpu(bench: Bench, server: ServerProcess) -> None:
    """HIGH and NORMAL alone, then beside a flood of LOW."""
    many = texts(256)
    saturated = saturate(server.address, {"any": [request(text) for text in many]}, bench, OPEN)
    capacity = saturated["any"]["rate"]

    def asked(priority: pb.Priority) -> list[pb.PredictRequest]:
        return [pb.PredictRequest(text=text, priority=priority) for text in many]

    chosen = loads(capacity, bench.seconds, asked)
    rounds = measure(bench, "on_cpu", server, {name: chosen[name] for name in LOADS}, DEADLINE_S)
    ends = rounds.all("flood", "HIGH")
    flooded = rounds.percentile("flood", "HIGH", 0.5, 1e6 * DEADLINE_S)
    name = f"MiniLM on cpu, HIGH beside a LOW flood of {FLOOD:g} × capacity"
    bench.rows += [
        refused_row(name, ends),
        Row(f"{name}: p50", flooded.value / 1e3, "ms", note=f"{capacity:,.0f}/s at saturation{rounds.doubtful}"),
        growth_row(f"{name}: growth of p50", rounds, "HIGH", LOADS, 0.5, 1e6 * DEADLINE_S, None),
    ]
