"""For FASTQPS_SOAK seconds processes are killed and stopped at random under load. Not run by default."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Callable

import pytest
from ledger import OK, Ledger, Load
from leftovers import WORKERS, nothing_left
from service import Service
from serving import Server

SOAK_S = float(os.environ.get("FASTQPS_SOAK", "0"))
REST_S = 15.0  # of service, for one worker slot: one that dies more than five times in a minute of it stays down


@pytest.mark.skipif(not SOAK_S, reason="FASTQPS_SOAK=seconds runs it")
@pytest.mark.timeout(SOAK_S + 120)
async def test_soak(serve: Callable[..., Server]) -> None:
    server = serve("--frontdoors=2", "--dispatchers=2", "--slots=256", "--max-batch-items=8", echo=True)
    ledger, chance = Ledger(), random.Random(time.time_ns())
    service = Service(server)
    struck = dict.fromkeys(WORKERS, -REST_S)
    async with nothing_left(server):
        end = time.monotonic() + SOAK_S
        async with Load(server.address, ledger, channels=3, workers=6) as load:
            while time.monotonic() < end:
                await asyncio.sleep(chance.uniform(0.5, 4))
                await asyncio.to_thread(service.look)
                rested = [worker for worker in service.ready if service.served_s[worker] - struck[worker] >= REST_S]
                for worker in chance.sample(rested, min(len(rested), chance.choice([1, 1, 2]))):
                    struck[worker] = service.served_s[worker]
                    service.ready[worker].send_signal(chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP]))
                await load.more(100)
    ledger.check("UNAVAILABLE")
    print(ledger.counts, {role: n for role, n in server.metrics().items() if "restarts" in role})
    assert ledger.counts[OK] > ledger.counts["UNAVAILABLE"]
