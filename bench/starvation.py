"""More processes than cores: at half of one core's capacity, the tail on one core against the tail on two."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from bench.load import PREDICT, Load, loadgen
from bench.row import Row
from bench.texts import request, texts
from bench.transport import LOAD_CPU, SERVER_CPU
from fastqps.bench.measure.workload import write_messages
from fastqps.process.server_process import ServerProcess

FLAGS = ("--model", "minilm", "--device", "null", "--frontdoors", "2", "--dispatchers", "2", "--pin", "off")
OPEN = 256  # streams on each of 16 connections, so that hardly any call waits for one


def measure(folder: Path, repetitions: int, seconds: float) -> tuple[list[Row], list[dict[str, Any]]]:
    """p99 from the intended send time, open loop, with two front doors and two dispatchers. The load shares the
    second core with the server in the two-core case."""
    payloads = write_messages(folder / "starved", map(request, texts(1000)))
    tails: dict[int, list[float]] = {1: [], 2: []}
    points = []
    with ServerProcess(*FLAGS, cpus=[SERVER_CPU]) as one, ServerProcess(*FLAGS, cpus=[SERVER_CPU, LOAD_CPU]) as two:
        capacity = loadgen(one.address, PREDICT, payloads, Load(16, 64, seconds), LOAD_CPU)["rate"]
        offered = round(capacity / 2)
        for _ in range(repetitions):
            for cores, server in ((1, one), (2, two)):
                run = loadgen(server.address, PREDICT, payloads, Load(16, OPEN, seconds), LOAD_CPU, rate=offered)
                tails[cores].append(run["response_time_us"]["p99"])
                points.append({"name": f"on {cores} cores", **run})
    late = sum(point["verdict"] == "INVALID" for point in points)
    starved, free = statistics.median(tails[1]), statistics.median(tails[2])
    note = f"p99 {starved:,.0f} µs on one, {free:,.0f} µs on two; {offered:,}/s offered"
    note += f"; the generator was late in {late} of {len(points)} runs" if late else ""
    return [Row("p99 on one core over p99 on two", starved / free, "×", 10, at_most=True, note=note)], points
