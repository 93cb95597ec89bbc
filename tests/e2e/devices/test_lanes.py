"""Lanes: steps of one dispatcher that run side by side, and whose answers come in any order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from busy import sees
from figures import Perf
from ledger import OK, Ledger, stub_to, unary
from profiles import write_profile
from serving import PATIENCE_S, Server, until

import fastqps

MAX_TOKENS = 3000  # of an answer: long enough to be met in the middle


async def test_a_slow_step_holds_up_only_its_lane(shared_server: Callable[..., Server]) -> None:
    """What comes behind it is answered before it."""
    server = shared_server("--dispatchers=1", "--lanes=3", echo=True)
    ledger = Ledger()
    async with stub_to(server.address) as stub:
        assert await unary(stub, ledger) == OK
        with server.gate() as gate:
            slow = asyncio.create_task(unary(stub, ledger, gate.id))
            await sees(lambda: server.claimed(1), "it runs")
            others = [asyncio.create_task(unary(stub, ledger)) for _ in range(20)]
            assert set(await asyncio.gather(*others)) == {OK}
            assert not slow.done()
        assert set(await asyncio.gather(slow, *others)) == {OK}
    ledger.check()


def after_steps(server: Server, count: int) -> dict[str, float]:
    """The metrics, once so many steps are counted: a dispatcher answers first."""
    until(lambda: server.metrics()["fastqps_steps_total"] >= count, f"{count} steps\n{server.log()}")
    found = server.metrics()
    assert found["fastqps_steps_total"] == count
    return found


@pytest.mark.perf
def test_a_device_that_overlaps_steps_is_faster_with_lanes(
    serve: Callable[..., Server], tmp_path: Path, perf: Perf
) -> None:
    """Steps of 20 ms of which nothing occupies the device: four lanes run four of them in the time of one."""
    profile = write_profile(tmp_path / "overlaps.toml", {"fixed_us": 20_000, "per_token_us": 0, "overlap": 1.0})

    def took_s(lanes: int) -> float:
        flags = (f"--device=sim:{profile}", "--max-batch-items=1", "--dispatchers=1", f"--lanes={lanes}")
        server = serve(*flags, "--canary-interval=0")  # they keep the device busy, too
        with fastqps.Client(server.address, timeout_s=PATIENCE_S) as client:
            client.predict("first")
            before, began = after_steps(server, 1), time.monotonic()
            client.predict_batch([f"text {i}" for i in range(48)])
            took_s = time.monotonic() - began
            after = after_steps(server, 1 + 48)
        busy_s = after["fastqps_device_busy_seconds_total"] - before["fastqps_device_busy_seconds_total"]
        assert 0.02 * 48 / lanes <= busy_s <= took_s + 0.05, "what overlaps keeps it busy once"
        return took_s

    one_s = took_s(1)
    assert one_s >= 0.96
    perf("rate with four lanes over one", lambda: one_s / took_s(4), at_least=2.5, tries=3)
