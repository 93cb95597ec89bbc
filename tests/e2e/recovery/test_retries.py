"""More calls at once than a server takes: a client that retries has them all answered."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from profiles import write_profile
from serving import PATIENCE_S, Server

import fastqps

CALLS = 3000
QUEUE = 256
ITEMS = 16
STEP_US = 20_000  # 800 requests/s: less than any client sends


async def ask(address: str, retries: int) -> Counter[str]:
    async with fastqps.AsyncClient(address, retries=retries, timeout_s=PATIENCE_S) as client:
        found = await asyncio.gather(*(client.predict(f"text {i}") for i in range(CALLS)), return_exceptions=True)
    return Counter(type(result).__name__ for result in found)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    profile = write_profile(tmp_path / "slow.toml", {"fixed_us": STEP_US, "per_token_us": 0})
    limits = (f"--max-queue-items={QUEUE}", f"--max-batch-items={ITEMS}")
    server = Server(f"--device=sim:{profile}", "--frontdoors=1", "--dispatchers=1", *limits)
    try:
        yield server
        server.stop()
    finally:
        server.kill()


def test_gathered_calls_are_all_answered_by_a_client_that_retries(server: Server) -> None:
    without = asyncio.run(ask(server.address, 0))
    assert without["ResourceExhausted"], f"the queue was never full: {without}"
    assert asyncio.run(ask(server.address, 20)) == {"Prediction": CALLS}
