"""More calls at once than a server takes: it stays ready, and a client that retries has them all answered."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from profiles import write_profile
from serving import PATIENCE_S, Server

import fastqps

CALLS = 1000
QUEUE = 256
ITEMS = 16
STEP_US = 20_000  # 800 requests/s: less than any client sends


async def ask(address: str, retries: int) -> Counter[str]:
    async with fastqps.AsyncClient(address, retries=retries, timeout_s=PATIENCE_S) as client:
        found = await asyncio.gather(*(client.predict(f"text {i}") for i in range(CALLS)), return_exceptions=True)
    return Counter(type(result).__name__ for result in found)


def test_gathered_calls_are_all_answered_by_a_client_that_retries(serve: Callable[..., Server], tmp_path: Path) -> None:
    profile = write_profile(tmp_path / "slow.toml", {"fixed_us": STEP_US, "per_token_us": 0})
    limits = (f"--max-queue-items={QUEUE}", f"--max-batch-items={ITEMS}")
    server = serve(f"--device=sim:{profile}", "--frontdoors=1", "--dispatchers=1", *limits)
    over, looks = threading.Event(), Counter[object]()

    def look() -> None:
        """Readiness and liveness say nothing of load."""
        while not over.wait(0.02):
            looks[probe.ready(timeout_s=PATIENCE_S)] += 1
            for page, key in (("/readyz", "ready"), ("/livez", "live")):
                looks[json.loads(server.page(page))[key]] += 1  # raises at 503

    with fastqps.Client(server.address) as probe, ThreadPoolExecutor(1) as thread:
        looking = thread.submit(look)
        try:
            without = asyncio.run(ask(server.address, 0))
            with_retries = asyncio.run(ask(server.address, 20))
        finally:
            over.set()
        looking.result(PATIENCE_S)
    assert without["ResourceExhausted"], f"the queue was never full: {without}"
    assert with_retries == {"Prediction": CALLS}
    assert set(looks) == {True} and looks[True] > 10, looks
    metrics = server.metrics()
    assert metrics["fastqps_restarts_total"] == metrics["fastqps_canaries_total{0,missed}"] == 0
