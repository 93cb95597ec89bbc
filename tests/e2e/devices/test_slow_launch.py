"""A host that prepares its steps slowly: FASTQPS_TEST_PREPARE."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from profiles import write_profile
from serving import PATIENCE_S, Server, until

import fastqps

STEPS = 60


@pytest.mark.alone
def test_a_slow_host_lowers_the_rate_and_is_blamed_for_it(serve: Callable[..., Server], tmp_path: Path) -> None:
    """By as much as the file says at the moment, and no longer when it says so. Steps take 4 ms."""
    prepare = tmp_path / "prepare"
    prepare.write_bytes(bytes(8))
    device = "--device=sim:" + write_profile(tmp_path / "p.toml", {"fixed_us": 4000, "per_token_us": 0})
    flags = (device, "--dispatchers=1", "--max-batch-items=1", "--canary-interval=0")
    server = serve(*flags, env={"FASTQPS_TEST_PREPARE": str(prepare)})

    def run(client: fastqps.Client, prepare_us: int) -> tuple[float, float]:
        """(the steps' time, the share of it in which the device waited for a launch)."""
        prepare.write_bytes(prepare_us.to_bytes(8, "little"))
        before, began = server.metrics(), time.monotonic()
        client.predict_batch(["text"] * STEPS)
        took_s = time.monotonic() - began
        until(lambda: server.metrics()["fastqps_steps_total"] == before["fastqps_steps_total"] + STEPS, "counted")
        key = "fastqps_device_idle_seconds_total{sim:p,0,launch}"
        return took_s, (server.metrics()[key] - before[key]) / took_s

    with fastqps.Client(server.address, timeout_s=PATIENCE_S) as client:
        client.predict("first")
        slow_s, slow_share = run(client, 20_000)
        fast_s, fast_share = min(run(client, 0) for _ in range(3))
    assert slow_s >= 0.02 * STEPS and slow_s > 2.5 * fast_s, (slow_s, fast_s)
    assert slow_share > 0.5 > 2 * fast_share, (slow_share, fast_share)
