"""A host that prepares its steps slowly: FASTQPS_TEST_PREPARE."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from profiles import write_profile
from serving import PATIENCE_S, Server, until

import fastqps

STEPS = 30


def test_the_device_waits_for_a_slow_host(serve: Callable[..., Server], tmp_path: Path) -> None:
    """For 16 ms of the 20 that each launch takes, as soon as the file says so; a busy machine adds to them."""
    prepare = tmp_path / "prepare"
    prepare.write_bytes(bytes(8))
    device = "--device=sim:" + write_profile(tmp_path / "p.toml", {"fixed_us": 4000, "per_token_us": 0})
    flags = (device, "--dispatchers=1", "--max-batch-items=1", "--canary-interval=0")
    server = serve(*flags, env={"FASTQPS_TEST_PREPARE": str(prepare)})
    with fastqps.Client(server.address, timeout_s=PATIENCE_S) as client:
        client.predict("first")
        prepare.write_bytes((20_000).to_bytes(8, "little"))
        before, began = server.metrics(), time.monotonic()
        client.predict_batch(["text"] * STEPS)
    assert time.monotonic() - began >= 0.02 * STEPS
    key, steps = "fastqps_device_idle_seconds_total{sim:p,0,launch}", "fastqps_steps_total"
    until(lambda: server.metrics()[steps] == before[steps] + STEPS, "all steps are counted")
    assert server.metrics()[key] - before[key] > 0.012 * STEPS
