"""Two tenants behind one proxy: one asks fifty times as often as the other, and for more than there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bench.isolation.figures import refused_row
from bench.isolation.mix import Kind, poisson
from bench.isolation.rounds import measure
from bench.isolation.subject import CAPACITY, DEADLINE_S, message
from bench.row import Row
from fastqps.process.server_process import ServerProcess

QUIET, TIMES = 0.05, 50  # of the capacity; the other's rate over that


def tenants(
    server: ServerProcess, folder: Path, repetitions: int, seconds: float
) -> tuple[list[Row], list[dict[str, Any]]]:
    """The quiet one alone, then beside the other."""
    quiet, loud = ([message(tenant=name)] for name in ("quiet", "loud"))

    def alone(seed: int) -> list[Kind]:
        return [Kind("quiet", quiet, poisson(QUIET * CAPACITY, seconds, 10 * seed))]

    def beside(seed: int) -> list[Kind]:
        return [*alone(seed), Kind("loud", loud, poisson(TIMES * QUIET * CAPACITY, seconds, 10 * seed + 1))]

    rounds = measure(server, {"alone": alone, "beside": beside}, folder, repetitions, DEADLINE_S)
    ends, most_us = rounds.all("beside", "quiet"), 1e6 * DEADLINE_S
    before = rounds.percentile("alone", "quiet", 0.99, most_us)
    after = rounds.percentile("beside", "quiet", 0.99, most_us)

    def kept(p99_us: float) -> float:
        return 100 * float(np.mean(ends.wait_us <= min(2 * p99_us, most_us - 1)))

    ends_us = (0.0, most_us) if rounds.hindered("alone", "beside") else before.interval
    return [
        refused_row(f"tenant beside one with {TIMES} × its rate", ends),
        Row(
            "the same: answered within 2 × its unloaded p99", kept(before.value), "%", 95,
            note=f"p99 {after}, alone {before}{rounds.doubtful}",
            interval=(kept(ends_us[0]), kept(ends_us[1])),
        ),
    ], rounds.points  # fmt: skip
