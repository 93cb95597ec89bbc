"""A host that prepares its steps slowly: FASTQPS_TEST_PREPARE."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from figures import Perf
from profiles import write_profile
from serving import PATIENCE_S, Server, until

import fastqps

STEPS = 60


class SlowHost:
    """A server whose device takes 4 ms for a step, and whose host takes what a file says."""

    def __init__(self, serve: Callable[..., Server], folder: Path) -> None:
        self._prepare = folder / "prepare"
        self._prepare.write_bytes(bytes(8))
        device = "--device=sim:" + write_profile(folder / "p.toml", {"fixed_us": 4000, "per_token_us": 0})
        flags = (device, "--dispatchers=1", "--max-batch-items=1", "--canary-interval=0")
        self._server = serve(*flags, env={"FASTQPS_TEST_PREPARE": str(self._prepare)})
        with self._client() as client:
            client.predict("first")

    def _client(self) -> fastqps.Client:
        return fastqps.Client(self._server.address, timeout_s=PATIENCE_S)

    def run(self, prepare_us: int) -> tuple[float, float]:
        """(the seconds of all steps, those in which the device waited for a launch)."""
        self._prepare.write_bytes(prepare_us.to_bytes(8, "little"))
        before, began = self._server.metrics(), time.monotonic()
        with self._client() as client:
            client.predict_batch(["text"] * STEPS)
        took_s = time.monotonic() - began
        key, steps = "fastqps_device_idle_seconds_total{sim:p,0,launch}", "fastqps_steps_total"
        until(lambda: self._server.metrics()[steps] == before[steps] + STEPS, "all steps are counted")
        return took_s, self._server.metrics()[key] - before[key]


def test_the_device_waits_for_a_slow_host(serve: Callable[..., Server], tmp_path: Path) -> None:
    """For 16 ms of the 20 that each launch takes; a busy machine adds to them."""
    took_s, waited_s = SlowHost(serve, tmp_path).run(20_000)
    assert took_s >= 0.02 * STEPS and waited_s > 0.012 * STEPS


@pytest.mark.perf
def test_a_slow_host_lowers_the_rate_and_is_blamed_for_it(
    serve: Callable[..., Server], tmp_path: Path, perf: Perf
) -> None:
    """By as much as the file says at the moment, and no longer when it says so."""
    host = SlowHost(serve, tmp_path)
    slow_s, waited_s = host.run(20_000)
    fast = [host.run(0) for _ in range(3)]
    perf("time with slow launches over that with fast ones", slow_s / min(fast)[0], at_least=2.5)
    perf("share that the device waits for slow launches", waited_s / slow_s, at_least=0.5)
    perf("share that the device waits for fast launches", min(waited / took for took, waited in fast), at_most=0.25)
